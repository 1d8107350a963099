"""The results of sampling; walks, link sampling and HGT sampling."""
