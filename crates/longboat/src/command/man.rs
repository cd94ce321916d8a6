//! `longboat man`: manual pages from the definition of the command line.

use anyhow::Context as _;

use crate::{
    cli::{self, ManArgs},
    printer,
    program_name::ProgramName,
};

/// Writes the pages, `longboat.1`, `longboat-up.1` and so on.
pub(crate) fn run(args: &ManArgs) -> anyhow::Result<()> {
    let folder = &args.folder;
    if folder.is_file() {
        anyhow::bail!("`{}` is a file: pass the folder to write manual pages to", folder.display());
    }
    let cannot_write = || format!("cannot write manual pages to `{}`", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot_write)?;
    let command = cli::command(ProgramName::Longboat).disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).with_context(cannot_write)?;
    printer::note(&format!("manual pages: {}", folder.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_folder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = run(&ManArgs { folder: file.path().to_owned() }).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`{}` is a file: pass the folder to write manual pages to", file.path().display())
        );
    }

    #[test]
    fn every_verb_that_help_shows_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        run(&ManArgs { folder: folder.path().to_owned() }).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
        assert!(page("longboat").contains("longboat\\-up(1)"), "{}", page("longboat"));
        for verb in cli::command(ProgramName::Longboat).get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let text = page(&format!("longboat-{}", verb.get_name()));
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{text}");
        }
    }
}
