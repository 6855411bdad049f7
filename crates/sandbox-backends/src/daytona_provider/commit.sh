# Carries out a patch: moves new files from a folder ($1) to their places and removes others, all or nothing.
# For each change six arguments: `write` or `remove`, its number, the path, `+x`, `-x` or nothing, the path whose rights count, and the
# SHA-256 of what was there when the patch was worked out, or `missing`.
stage=$1
shift

each() {
    step=$1
    shift
    while [ $# -ge 6 ]; do
        "$step" "$1" "$2" "$3" "$4" "$5" "$6" || return 1
        shift 6
    done
}

# Nothing is changed by this.
keep() {
    if [ -e "$3" ] || [ -L "$3" ]; then
        if [ -L "$3" ] || ! [ -f "$3" ]; then
            echo "$3 is not a regular file"
            return 1
        fi
        cp -p -- "$3" "$stage/old.$2" || return 1
        # Where nothing computes it, nobody knows.
        found=$(sha256sum <"$stage/old.$2" 2>/dev/null)
        found=${found%% *}
    else
        found=missing
    fi
    if [ -n "$found" ] && [ "$found" != "$6" ]; then
        echo "$3 was changed meanwhile"
        return 1
    fi
    if [ "$1" = write ]; then
        like=${5:-$3}
        mode=644
        if [ -f "$like" ]; then
            mode=$(stat -c %a -- "$like") || mode=644
        fi
        chmod "$mode" "$stage/new.$2" || return 1
        if [ -n "$4" ]; then
            chmod "$4" "$stage/new.$2" || return 1
        fi
    fi
}

change() {
    : >"$stage/done.$2" || return 1
    if [ "$1" = write ]; then
        mkdir -p -- "${3%/*}" && mv -f -- "$stage/new.$2" "$3"
    else
        rm -f -- "$3"
    fi
}

undo() {
    if [ -e "$stage/done.$2" ]; then
        if [ -e "$stage/old.$2" ]; then
            mv -f -- "$stage/old.$2" "$3"
        else
            rm -f -- "$3"
        fi
    fi
    return 0
}

code=0
each keep "$@" && each change "$@" || {
    each undo "$@"
    code=1
}
rm -rf -- "$stage"
exit $code
