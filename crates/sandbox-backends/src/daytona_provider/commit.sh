# Carries out a patch: moves new files from a folder ($1) to their places and removes others, all or nothing.
# For each change five arguments: `write` or `remove`, its number, the path, `+x`, `-x` or nothing, and the path whose rights count.
stage=$1
shift

each() {
    step=$1
    shift
    while [ $# -ge 5 ]; do
        "$step" "$1" "$2" "$3" "$4" "$5" || return 1
        shift 5
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
