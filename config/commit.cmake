# commit.cmake - writes the source file SOURCE, which has the commit of TREE, if that is another one than in the file.
#
#   "1a2b3c4d5e6f"     the commit, "1a2b3c4d5e6f+" if tracked files have changed since
#   "unknown"      no git repository, and no SCREE_COMMIT in the environment (container images have no .git)
set(commit "$ENV{SCREE_COMMIT}")
if(NOT commit)
    execute_process(COMMAND git -C ${TREE} describe --always --abbrev=12 --exclude=* --dirty=+
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit MATCHES "^[0-9a-f]+[+]?$")
    set(commit "unknown")
endif()
set(text "#include \"shared/version.h\"\n\nconst char scree_commit[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${SOURCE})
    file(READ ${SOURCE} before)
endif()
if(NOT before STREQUAL text)
    file(WRITE ${SOURCE} "${text}")
endif()
