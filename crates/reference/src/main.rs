//! Writes the generated pages: `cargo run -p longboat-reference`.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, page) in longboat_reference::pages(&root)? {
        fs::write(root.join(path), page)?;
    }
    Ok(())
}
