# A server that only this test can reach, under the load of its own benchmark; then what it says
# about data of every type.
set -euo pipefail
redis-server --port 0 --unixsocket "$PWD/socket" --save "" --appendonly no --io-threads 2 \
    --lazyfree-lazy-user-del yes >log &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
ask() { redis-cli -s socket "$@"; }
until ask ping >answer 2>&1 && [ "$(<answer)" = PONG ]; do
    kill -0 $server || { cat log; exit 1; }
done

# Nobody knows how many requests a second; but there must be as many as were asked for.
redis-benchmark -s socket -n 20000 -c 50 -P 16 -r 5000 -d 300 --csv \
    -t ping_inline,set,get,incr,lpush,rpush,lpop,sadd,hset,spop,zadd,lrange_100,mset >benchmark
cut -d, -f1 benchmark
redis-benchmark -s socket -n 500 -c 5 -r 100 -d 200000 --csv -t set,get >benchmark
cut -d, -f1 benchmark
ask flushall async

{
    for n in {1..3000}; do
        echo "set key:$n $(printf '%0*d' $((n % 500 + 1)) $n)"
        echo "rpush list:$((n % 10)) element-$n"
        echo "sadd set:$((n % 7)) member-$((n * 31 % 700))"
        echo "hset hash:$((n % 5)) field-$n value-$n"
        echo "zadd sorted $((n * 7919 % 1009)) member-$n"
        echo "append log line-$n-of-many,"
    done
} | ask | sha256sum
ask dbsize
ask strlen log
ask zrange sorted 0 9 withscores
ask lrange list:3 290 299
ask hget hash:2 field-1002
ask scard set:4
ask eval 'local all = {}
    for _, key in ipairs(redis.call("keys", "key:*")) do
        all[#all + 1] = key .. redis.call("get", key)
    end
    table.sort(all)
    return redis.sha1hex(table.concat(all))' 0
ask eval 'for n = 1, 3000, 2 do redis.call("del", "key:" .. n) end return redis.call("dbsize")' 0
ask memory purge
ask sort list:1 alpha limit 0 5
ask shutdown nosave
wait $server
