//! `longboat crds`: the CustomResourceDefinitions of Longboat's kinds.

use longboat_api::crd::{self, WebhookTarget};

use crate::{
    cli::{CrdsArgs, Format},
    printer,
};

/// Prints the definitions in the requested format.
pub(crate) fn run(args: &CrdsArgs) -> anyhow::Result<()> {
    let mut crds = crd::own_for(&WebhookTarget::default());
    if args.minimal {
        crd::minimal(&mut crds);
    }
    match args.output {
        Format::Yaml => {
            for document in &crds {
                printer::write_piece(&format!("---\n{}", crd::to_yaml(document)?));
            }
        }
        Format::Json => printer::list(&crds)?,
    }
    Ok(())
}
