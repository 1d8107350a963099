"""What sampling returns; walks, links and HGT sampling."""
