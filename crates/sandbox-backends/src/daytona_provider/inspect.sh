# For each path: `in` or `out` of the workspace ($1), what it is, its length and SHA-256 if it is a file.
root=$(cd -P -- "$1" && pwd -P && echo x) || exit 3
root=${root%?x}
shift
# One line for each path, and nothing between them.
exec 2>/dev/null
for path do
    # The deepest part that is there decides: what is missing below it can lead nowhere else.
    probe=$path
    until [ -e "$probe" ] || [ -L "$probe" ]; do
        probe=${probe%/*}
        probe=${probe:-/}
    done
    real=$(readlink -f -- "$probe" && echo x) || real=//x
    real=${real%?x}
    case $real/ in
        "$root"/*) place=in ;;
        *) place=out ;;
    esac
    if [ -L "$path" ]; then
        kind=link
    elif [ -f "$path" ]; then
        kind=file
    elif [ -d "$path" ]; then
        kind=folder
    elif [ -e "$path" ]; then
        kind=other
    else
        kind=missing
    fi
    size= hash=
    if [ "$place" = in ] && [ -f "$path" ] && [ -r "$path" ]; then
        size=$(wc -c <"$path")
        hash=$(sha256sum <"$path" || shasum -a 256 <"$path")
        hash=${hash%% *}
    fi
    echo "$place" "$kind" ${size:--} "${hash:--}"
done
