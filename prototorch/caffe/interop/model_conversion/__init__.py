"""A Caffe net as a person would write it in our language: from the exact net by a list of changes."""
