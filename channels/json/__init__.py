"""JSON as slices of a body, in outline, read leniently, and weighed before it is read."""
