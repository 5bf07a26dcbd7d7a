"""What a client may ask of the media endpoints, as tables without HTTP."""
