#!/usr/bin/env bash
# Creates the one comment of this action on the pull request, or updates it. It is known by its first line.
# The token of a pull request from a fork may not comment: then the summary of the job has to do, and the job goes on.
set -uo pipefail

comments=repos/$GITHUB_REPOSITORY/issues
read -r mark <"$BODY"
mark=${mark//\\/\\\\}
mark=${mark//\"/\\\"}
# Only a bot's comment is taken: anybody may write such a line.
filter=".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$mark\"))) | .id"
if ids=$(gh api --paginate "$comments/$NUMBER/comments" --jq "$filter"); then
  id=${ids%%$'\n'*}
  if [ -n "$id" ]; then
    gh api --method PATCH "$comments/comments/$id" --field "body=@$BODY" --silent && exit 0
  else
    gh api --method POST "$comments/$NUMBER/comments" --field "body=@$BODY" --silent && exit 0
  fi
fi
echo "::notice::This token may not comment on the pull request; the summary of the job has the same text."
