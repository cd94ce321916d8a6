//! The page of annotations.

use std::fmt::Write as _;

use crate::{NOTE, cell, source};

/// Makes the page from the source that defines the keys.
pub(crate) fn page(text: &str) -> String {
    let mut page = format!(
        "# Annotations\n\n{NOTE}\n\nAnnotations that Longboat reads or writes. Annotations that begin with \
         `internal.` are for its own use: do not set them.\n\n| annotation | meaning |\n|---|---|\n"
    );
    for item in source::constants(text).iter().filter(|item| item.name.contains('/')) {
        let _ = writeln!(page, "| `{}` | {} |", item.name, cell(&item.doc));
    }
    page.push_str(
        "\n## Annotations that reach the pods\n\nAnnotations of a service whose keys begin with one of these prefixes are \
         copied to its workloads and their pods:\n\n",
    );
    let propagated = source::block(text, "pub const PROPAGATED_PREFIXES");
    let propagated = propagated.split_once(';').and_then(|(_, rest)| rest.split_once("];"));
    let names = propagated.map_or("", |(list, _)| list).split('"').skip(1).step_by(2);
    for name in names {
        let _ = writeln!(page, "* `{name}`");
    }
    for item in
        source::constants(text).iter().filter(|item| !item.name.contains('/') && item.name.contains('.'))
    {
        let _ = writeln!(page, "* `{}`: LeaderWorkerSets only", item.name);
    }
    page
}
