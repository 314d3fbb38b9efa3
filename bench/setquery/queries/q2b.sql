select count(*) from bench where k2 = 2 and not k1k = 3
