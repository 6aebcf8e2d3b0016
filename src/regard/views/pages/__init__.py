"""HTML pages, each one offline file."""
