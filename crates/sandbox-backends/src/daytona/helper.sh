# What a file operation does in a sandbox. Arguments: the operation, the root, and what the operation takes.
LC_ALL=C
export LC_ALL
umask 022
holm_fail() { exit "$1"; }
holm_operation=$1
holm_decode "$2"
holm_root=$holm_word
shift 2
holm_enter

# Goes to the folder $1, which is relative to the root.
holm_below() { if [ "$1" = . ]; then return; fi; holm_at "$holm_real/$1"; }

# The same, and makes what is missing on the way.
holm_make() {
  holm_rest=$1
  while [ -n "$holm_rest" ]; do
    holm_part=${holm_rest%%/*}
    case $holm_rest in */*) holm_rest=${holm_rest#*/} ;; *) holm_rest= ;; esac
    if [ "$holm_part" = . ]; then continue; fi
    if [ ! -e "./$holm_part" ] && [ ! -L "./$holm_part" ]; then
      mkdir -m 755 -- "./$holm_part" 2>/dev/null || [ -d "./$holm_part" ] || holm_fail 14
    fi
    holm_at "$holm_here/$holm_part"
  done
}

# Puts the staged file $3 in place as $2 of the folder $1. One that is there keeps its mode.
holm_place() {
  holm_decode "$1"; holm_make "$holm_word"
  holm_decode "$2"
  if [ -d "./$holm_word" ] && [ ! -L "./$holm_word" ]; then holm_fail 13; fi
  holm_mode=644
  if [ -f "./$holm_word" ] && [ ! -L "./$holm_word" ]; then
    holm_mode=$(stat -c %a -- "./$holm_word") || holm_fail 14
  fi
  chmod "$holm_mode" -- "$3" && mv -fT -- "$3" "./$holm_word" || holm_fail 14
}

# Opens a regular file as 3, and says where it really is. With $3 its content is copied there.
holm_read() {
  holm_decode "$1"; holm_below "$holm_word"
  holm_decode "$2"
  if [ ! -e "./$holm_word" ]; then holm_fail 11; fi
  if [ ! -f "./$holm_word" ]; then holm_fail 13; fi
  holm_tries=0
  while :; do
    exec 3<"./$holm_word" || holm_fail 14
    holm_file=$(readlink "/proc/$$/fd/3"; printf x); holm_file=${holm_file%?x}
    case $holm_file in "$holm_real"/*) ;; *) holm_fail 10 ;; esac
    # One that was replaced since it was opened has no name any more: the kernel says `NAME (deleted)`.
    if [ -e "$holm_file" ] || [ "$holm_tries" -ge 20 ]; then break; fi
    holm_tries=$((holm_tries + 1))
  done
  if [ -n "$3" ]; then
    mkdir -p -- "${3%/*}" && cat <&3 >"$3" || holm_fail 14
    holm_file=$3
  fi
  printf %s "$holm_file" | base64
}

holm_delete() {
  holm_decode "$1"; holm_below "$holm_word"
  holm_decode "$2"
  if [ ! -e "./$holm_word" ] && [ ! -L "./$holm_word" ]; then holm_fail 11; fi
  if [ -d "./$holm_word" ] && [ ! -L "./$holm_word" ]; then holm_fail 13; fi
  rm -f -- "./$holm_word" || holm_fail 14
}

# Names hold no slash, so one ends each.
holm_list() {
  holm_decode "$1"; holm_below "$holm_word"
  for holm_name in * .[!.]* ..?*; do
    if [ -L "./$holm_name" ]; then printf 'l%s/' "$holm_name"
    elif [ -d "./$holm_name" ]; then printf 'd%s/' "$holm_name"
    elif [ -f "./$holm_name" ]; then printf 'f%s/' "$holm_name"
    elif [ -e "./$holm_name" ]; then printf 'o%s/' "$holm_name"
    fi
  done | base64
}

# Packs the folder $1 into the archive $2.
holm_pack() {
  holm_decode "$1"; holm_below "$holm_word"
  mkdir -p -- "${2%/*}" && tar --hard-dereference -cf "$2" . || holm_fail 14
}

# Unpacks the archive $2 over the folder $1.
holm_unpack() {
  trap 'rm -f -- "$holm_archive"' EXIT
  holm_archive=$2
  holm_decode "$1"; holm_make "$holm_word"
  tar --no-same-owner -pxf "$2" || holm_fail 14
}

case $holm_operation in
  place)
    while [ "$#" -ge 3 ]; do
      holm_enter
      holm_place "$1" "$2" "$3"
      shift 3
    done ;;
  read) holm_read "$1" "$2" "${3-}" ;;
  delete) holm_delete "$1" "$2" ;;
  list) holm_list "$1" ;;
  enter) holm_decode "$1"; holm_below "$holm_word" ;;
  pack) holm_pack "$1" "$2" ;;
  unpack) holm_unpack "$1" "$2" ;;
esac
