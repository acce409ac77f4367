SELECT changed_orset(2000) = 2000;
