# Sends a signal ($2) to all processes that belong to a command (HOLM_COMMAND=$1), and tells, if $3 is given, what was in its folder.
# Processes go away while they are looked at, and others are not ours to look at.
exec 2>/dev/null
mark=HOLM_COMMAND=$1
signal=$2
tries=0
while [ $tries -lt 5 ]; do
    tries=$((tries + 1))
    found=
    for process in /proc/[0-9]*; do
        # This script has no such variable itself.
        if tr '\0' '\n' <"$process/environ" | grep -qxF "$mark"; then
            found=yes
            kill -s "$signal" "${process#/proc/}"
        fi
    done
    # Those that are killed may have made others meanwhile; those that are asked to end are asked once.
    [ "$signal" = KILL ] && [ -n "$found" ] || break
done
if [ -n "$3" ]; then
    echo "ended -"
    for name in out err; do
        head -c "$4" "$3/$name" | base64 | tr -d '\n'
        echo
    done
    rm -rf -- "$3"
fi
