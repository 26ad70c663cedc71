"""What everybody may import: text made safe, the clock, files with secrets, the build."""
