"""What things take here: operators recorded → this machine's calibration → predicted time and memory."""
