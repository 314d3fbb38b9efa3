# A PostgreSQL server of a test's own, in a temporary folder, reached through a socket in it.  To be sourced:
#
#     trap 'server_end' EXIT
#     if server_start; then psql -h "$server_place" -U weft -d postgres; else echo "skipped: $server_missing"; fi
#
# Text sorts by bytes and letters are Unicode's, as in Weft.  PostgreSQL refuses to run as root, so that another user
# (postgres) must reach its files, and the path of a socket must be short.
# shellcheck shell=sh
server_place='' server_missing=''

server_as_user() {
    if [ "$(id -u)" = 0 ]; then runuser -u "$server_user" -- "$@"; else "$@"; fi
}

server_start() {
    server_bin=''
    for server_found in /usr/lib/postgresql/*/bin; do
        [ -x "$server_found/initdb" ] && server_bin=$server_found
    done
    server_missing='no PostgreSQL (scripts/deps optional installs it)'
    [ -n "$server_bin" ] && command -v psql >/dev/null || return 1
    server_user=$(id -un)
    if [ "$(id -u)" = 0 ]; then
        server_user=postgres
        server_missing='no user postgres to run PostgreSQL as'
        id "$server_user" >/dev/null 2>&1 || return 1
    fi
    server_place=$(mktemp -d /tmp/weft-server.XXXXXX) || return 1
    chown "$server_user" "$server_place"
    server_missing="PostgreSQL does not start, see its log above"
    server_options="-k $server_place -c listen_addresses= -c timezone=UTC -c fsync=off -c jit=off -c autovacuum=off"
    server_options="$server_options -c max_parallel_workers_per_gather=0"
    server_as_user "$server_bin/initdb" -D "$server_place/data" --lc-collate=C --lc-ctype=C.UTF-8 -E UTF8 -A trust \
        -U weft --no-sync >"$server_place/initdb" 2>&1 &&
        server_as_user "$server_bin/pg_ctl" -D "$server_place/data" -l "$server_place/log" -w start \
            -o "$server_options" >>"$server_place/initdb" 2>&1 && return 0
    cat "$server_place/initdb"
    return 1
}

server_end() {
    [ -n "$server_place" ] || return 0
    [ -f "$server_place/data/postmaster.pid" ] &&
        server_as_user "$server_bin/pg_ctl" -D "$server_place/data" -m immediate stop >/dev/null 2>&1
    rm -rf "$server_place"
    server_place=''
}
