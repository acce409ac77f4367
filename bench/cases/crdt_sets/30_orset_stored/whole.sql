SELECT changed_orset(20000) = 20000;
