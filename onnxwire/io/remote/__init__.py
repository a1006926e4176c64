"""Read files on servers, of which ranges are fetched on demand, and save to servers."""
