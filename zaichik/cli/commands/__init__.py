"""The commands, a file each: the file of that name is the command."""
