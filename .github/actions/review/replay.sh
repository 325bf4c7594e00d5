#!/usr/bin/env bash
# Replays the tests, writes their pages and the text of the comment, and adds that text to the summary of the job.
# It ends with 0: a later step ends as the replay did, when all has been shown.
set -uo pipefail

work=$(mktemp -d "${RUNNER_TEMP:-/tmp}/agentreplay-XXXXXX")
pages=$work/pages
body=$work/comment.md

# Where the branch began is looked up in the history, which actions/checkout leaves out.
refspec=${BASE:+"+refs/heads/$BASE:refs/remotes/origin/$BASE"}
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
  git fetch --quiet --no-tags --unshallow origin ${refspec:+"$refspec"} || true
elif [ -n "$refspec" ]; then
  git fetch --quiet --no-tags origin "$refspec" || true
fi

eval "set -- ${PYTEST_ARGS:-}"  # words of the workflow's author, quoted as in a shell
GITHUB_STEP_SUMMARY=$work/diverged.md python -m pytest --replay=model --agentreplay-html="$pages" "$@"
code=$?

GITHUB_BASE_REF=${BASE:-} python -m pytest_agentreplay summarize --out "$work/changes.md" >/dev/null 2>"$work/why"
if [ ! -s "$work/changes.md" ]; then
  # What stands in the way may quote names of files: as code of four spaces nothing in it is Markdown.
  { echo "Recorded runs were not compared:"; echo; sed 's/^/    /' "$work/why"; } >"$work/changes.md"
fi

{
  echo "<!-- agentreplay review: ${ARTIFACT:-} -->"
  if [ "$code" -eq 0 ]; then echo "### Replay passed"; else echo "### Replay failed (exit code $code)"; fi
  echo
  run=${GITHUB_SERVER_URL:-https://github.com}/${GITHUB_REPOSITORY:-}/actions/runs/${GITHUB_RUN_ID:-}
  echo "Pages of all runs: artifact \`${ARTIFACT:-}\` of [this run]($run)."
  echo
  # GitHub takes 65,536 characters. Each part has at most 60,000, and says itself what it leaves out.
  if [ -s "$work/diverged.md" ] && [ "$(cat "$work/diverged.md" "$work/changes.md" | wc -m)" -gt 65000 ]; then
    head -n 1 "$work/diverged.md"
    echo
    echo "The summary of the job has what diverged in full."
    echo
  elif [ -s "$work/diverged.md" ]; then
    cat "$work/diverged.md"
  fi
  cat "$work/changes.md"
} >"$body"

if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  cat "$work/diverged.md" "$work/changes.md" >>"$GITHUB_STEP_SUMMARY" 2>/dev/null || true
fi
{ echo "exit-code=$code"; echo "pages=$pages"; echo "body=$body"; } >>"$GITHUB_OUTPUT"
