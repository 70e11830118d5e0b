# Pipes, subshells, command substitutions and a hundred children at once, with what bash itself
# keeps in memory: arrays, long strings, here documents, expansions.
set -euo pipefail

# A hundred children, each a fork that works on by itself.
declare -a children
for n in {1..100}; do
    (
        text=""
        for i in {1..50}; do text+="$n:$i "; done
        exit $((${#text} % 100))
    ) &
    children+=($!)
done
sum=0
for child in "${children[@]}"; do
    status=0
    wait "$child" || status=$?
    sum=$((sum + status))
done
echo "children: ${#children[@]}, sum of what they said: $sum"

# Pipes between forks of the shell itself and other programs.
seq 1 20000 | while read -r n; do echo "$((n * n % 1009))"; done |
    sort -n | uniq -c | sort -k1,1nr -k2,2n | sed -n 1,5p
for depth in {1..20}; do
    value=$(echo "$( (echo "$depth"; echo "$( (echo nested) )") | tr '\n' ' ')")
    echo "$value"
done

declare -A words
while read -r word; do
    words[$word]=$((${words[$word]:-0} + 1))
done < <(for n in {1..5000}; do echo "word$((n * 7919 % 613))"; done)
echo "words: ${#words[@]}, ${words[word17]}"

long=$(printf 'x%.0s' {1..100000})
long=${long//xxx/yz}
echo "${#long} ${long:99:10}"
cat <<TEXT | tr a-z A-Z
the sum is $sum and $(echo "there are ${#words[@]} words" | sed 's/there/here/')
TEXT
