# The curve of resident memory that `make soak-server` draws. tests/soak/run gives: table, picture, builds, names,
# megabytes, aim, allowed.
set terminal pngcairo size 1200,320*builds+80 font ',11'
set output picture
set datafile commentschars '#'
set multiplot layout builds,1 title sprintf('kbfcached at -m %d beside abusers', megabytes)
set ylabel 'MB'
set xlabel 'minutes'
set key outside right top
set grid
do for [i=1:builds] {
  set title word(names, i)
  # Only the plain build has a limit: a sanitizer keeps memory of its own.
  is_plain = word(names, i) eq 'plain'
  if (is_plain) { set yrange [0:(allowed*1.1)<*] } else { set yrange [0:*] }
  plot table using ($2/60):(strcol(1) eq word(names, i) && $6 > 0 ? $3 : NaN) with filledcurves y1=0 fc rgb '#f6dcd0' title 'abusers there', \
       '' using ($2/60):(strcol(1) eq word(names, i) ? $3 : NaN) with lines lw 1.5 lc rgb '#204a87' title 'resident', \
       '' using ($2/60):(strcol(1) eq word(names, i) && $5 > 0 ? $4 : NaN) with lines lw 1.5 lc rgb '#c04000' title 'held by connections', \
       '' using ($2/60):(strcol(1) eq word(names, i) && $5 > 0 ? $5 : NaN) with lines dt 2 lc rgb '#c04000' title 'their limit', \
       is_plain ? aim : NaN with lines dt 2 lc rgb '#4e9a06' title '-m + 32 MB', \
       is_plain ? allowed : NaN with lines dt 3 lc rgb '#a40000' title '2 -m + 32 MB'
}
unset multiplot
