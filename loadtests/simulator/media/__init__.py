"""Real media files, made from nothing: a film, songs and speech in seven formats, a picture.

Pure functions from what is wanted (seconds, a seed for the looks) to the bytes of a file that any
player opens. `film.py` is an mp4, `mp3.py` an mp3, `audio.py` the other formats of sound,
`picture.py` a PNG; `bits.py` and `tone.py` are what they share. Nothing here knows of tasks.
"""
