#!/usr/bin/env bash
# One grid as a Slurm array, a shard a task, each alone on its node:
#
#   sbatch deploy/slurm.sh all --threads 1,16,128 --until 2%
#   freehold report results/shard-*.json -o report.html
#
#SBATCH --job-name=freehold
#SBATCH --array=1-8
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --signal=B:INT@300
#SBATCH --output=freehold-%A-%a.log
set -euo pipefail

results="${FREEHOLD_RESULTS:-results}"
freehold="${FREEHOLD:-freehold}"
mkdir -p "$results"

# Five minutes before the time is up Slurm interrupts this script, which passes it on: the command
# ends after its current run, and keeps what was measured.
"$freehold" bench "$@" \
    --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
    --json "$results/shard-$SLURM_ARRAY_TASK_ID.json" &
command=$!
trap 'kill -INT "$command"' INT TERM
status=0
wait "$command" || status=$?
# An interrupt ends the waiting, not the command.
while kill -0 "$command" 2>/dev/null; do
    status=0
    wait "$command" || status=$?
done
exit "$status"
