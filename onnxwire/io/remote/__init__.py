"""Files on servers, of which what is asked for is fetched."""
