//! The metrics endpoint, in the Prometheus text format.

use std::fmt::Write;

use crate::state::State;

/// Object counts and the revision.
pub(crate) fn text(state: &State) -> String {
    let mut out = String::new();
    out.push_str("# HELP apiserver_storage_objects Number of stored objects by resource.\n");
    out.push_str("# TYPE apiserver_storage_objects gauge\n");
    for resource in state.registry.tables() {
        // writing to a String cannot fail
        let _ = writeln!(
            out,
            "apiserver_storage_objects{{resource=\"{}\"}} {}",
            resource.qualified(),
            state.store.count(&resource.table)
        );
    }
    out.push_str("# HELP longboat_apiserver_revision Revision of the last write.\n");
    out.push_str("# TYPE longboat_apiserver_revision counter\n");
    let _ = writeln!(out, "longboat_apiserver_revision {}", state.store.revision());
    out
}
