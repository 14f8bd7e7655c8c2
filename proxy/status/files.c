/*
 * files.c - the files of the status page, embedded into the program by the assembler.
 */
#include "proxy/status/status.h"

#include <string.h>

/* The bytes of a file between two symbols; STATUS_PAGE is this folder (CMakeLists.txt). */
#define EMBED(symbol, file)                                                                        \
    __asm__(".pushsection .rodata, \"a\", @progbits\n"                                             \
            ".global status_" #symbol ", status_" #symbol "_end\n"                                 \
            "status_" #symbol ":\n"                                                                \
            ".incbin \"" STATUS_PAGE "/" file "\"\n"                                               \
            "status_" #symbol "_end:\n"                                                            \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char status_##symbol[], status_##symbol##_end[]

EMBED(page_html, "page.html");
EMBED(page_css, "page.css");
EMBED(page_js, "page.js");
EMBED(slots_js, "slots.js");
EMBED(plots_js, "plots.js");
EMBED(tables_js, "tables.js");
EMBED(history_js, "history.js");
EMBED(text_js, "text.js");

#define HTML       "text/html; charset=utf-8"
#define CSS        "text/css; charset=utf-8"
#define JAVASCRIPT "text/javascript; charset=utf-8"

const struct status_file *status_file_find(const char *path)
{
    static const struct status_file files[] = {
        {"/", HTML, status_page_html, status_page_html_end},
        {"/status", HTML, status_page_html, status_page_html_end},
        {"/status/page.css", CSS, status_page_css, status_page_css_end},
        {"/status/page.js", JAVASCRIPT, status_page_js, status_page_js_end},
        {"/status/slots.js", JAVASCRIPT, status_slots_js, status_slots_js_end},
        {"/status/plots.js", JAVASCRIPT, status_plots_js, status_plots_js_end},
        {"/status/tables.js", JAVASCRIPT, status_tables_js, status_tables_js_end},
        {"/status/history.js", JAVASCRIPT, status_history_js, status_history_js_end},
        {"/status/text.js", JAVASCRIPT, status_text_js, status_text_js_end},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(path, files[i].path) == 0)
            return &files[i];
    return NULL;
}
