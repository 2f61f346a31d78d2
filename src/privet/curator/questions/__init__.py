"""What may be asked: the steward's metadata, questions as JSON and as SQL, and their one canonical form.

*How data flow*: ``metadata`` (read by ``steward_file``) says what is public of a dataset. ``question`` reads
JSON with it, and ``sql`` turns a SELECT into the same JSON. ``canonical`` gives equal questions one form;
``planner`` prices it. Nothing here opens a data file.
"""
