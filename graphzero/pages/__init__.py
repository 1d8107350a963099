"""Pages of HTML: the frame, tables and plots that reports are made of."""
