select count(*) from bench where k100k = 2
