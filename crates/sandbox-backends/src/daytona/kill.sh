# Ends all processes of one command: they have its id in their environment, wherever they have gone.
while :; do
  holm_found=
  for holm_file in $(grep -lsaz "^HOLM_EXEC=$1\$" /proc/[0-9]*/environ); do
    holm_pid=${holm_file#/proc/}
    if kill -KILL "${holm_pid%/environ}"; then holm_found=yes; fi
  done
  if [ -z "$holm_found" ]; then break; fi
done 2>/dev/null
exit 0
