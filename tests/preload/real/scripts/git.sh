# A repository with some history, a clone of it, and everything that git does in threads of its own:
# packing, checking, searching.
set -euo pipefail
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
git config --global init.defaultBranch main
git config --global pack.threads 4
git config --global gc.auto 0
git config --global advice.detachedHead false

git init -q origin
cd origin
for commit in {1..30}; do
    mkdir -p "d$((commit % 5))"
    for file in {1..20}; do
        seq "$((file * commit))" "$((file * commit + 100 + commit * 7 % 50))" >"d$((commit % 5))/f$file"
    done
    seq 1 $((commit * 1000)) >big
    git add .
    export GIT_AUTHOR_DATE="$((1500000000 + commit * 1000)) +0000"
    export GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
    git commit -q -m "commit $commit"
    if [ $((commit % 10)) = 5 ]; then git branch "side$commit"; fi
done
git checkout -q side15
echo side >side
git add side
git commit -q -m "on the side"
git checkout -q main
git merge -q -m "merge" side15
cd ..

# Not by hard links, but by the protocol: one process packs, another one unpacks.
git clone -q --no-local origin clone
cd clone
git log --stat --format='%H %s' | sed -n 1,100p
git diff --stat HEAD~20 HEAD
git grep -c 111 HEAD -- | sed -n 1,20p
git blame --porcelain d1/f7 | sed -n 1,20p
git gc -q --aggressive --prune=now
git fsck --full --strict --no-progress
git count-objects -v | grep -v size
git rebase -q -X theirs --onto main~20 main~3 main
git repack -q -a -d -f
git verify-pack .git/objects/pack/*.idx
git fsck --full --no-progress
git archive HEAD | sha256sum
git rev-parse HEAD
