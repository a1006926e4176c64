"""Read files on servers, fetching ranges of the files on demand, and save files to servers."""
