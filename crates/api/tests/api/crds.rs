//! The generated CRDs.

use std::path::Path;

use longboat_api::crd;

#[test]
fn the_files_are_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    for document in crd::own().iter().chain(&crd::foreign()) {
        let path = folder.join(crd::file_name(document));
        let file = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            file == crd::to_yaml(document).unwrap(),
            "{} is not current: run `cargo run -p longboat-api --example crds`",
            path.display()
        );
    }
}
