//! Reads files, folders and standard input.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Document, ManifestError, ParseOutput, Position, Unapplied, limits::MAX_BYTES, parse::parse_all};

/// Reads all inputs in order. In folders, reads the `.yaml`, `.yml` and `.json` files by name, except Kustomize's own files.
/// `-` is standard input.
///
/// # Errors
/// The first problem, or [`ManifestError::Empty`].
pub fn read(inputs: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    read_all(inputs).into_result()
}

/// Like [`read`], but skips inputs that cannot be read.
pub fn read_all(inputs: &[PathBuf]) -> ParseOutput {
    let mut reading = ParseOutput::default();
    let mut add = |more: ParseOutput| {
        reading.documents.extend(more.documents);
        reading.problems.extend(more.problems);
        reading.unapplied.extend(more.unapplied);
    };
    for input in inputs {
        if input.as_os_str() == "-" {
            add(read_from("-", input, &mut io::stdin().lock()));
        } else if input.is_dir() {
            match files_of(input) {
                Ok(files) => {
                    for file in &files {
                        add(read_file(file));
                    }
                    let kustomization = kustomization_of(input).filter(|_| !files.is_empty());
                    add(ParseOutput {
                        unapplied: kustomization.into_iter().map(|file| unapplied(input, &file)).collect(),
                        ..ParseOutput::default()
                    });
                }
                Err(source) => add(failed(input, source)),
            }
        } else if is_kustomization(input) {
            let folder = input.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
            add(problem(ManifestError::Malformed {
                source_name: input.display().to_string(),
                position: Position::START,
                message: format!("this is a kustomization: {}", build_hint(folder)),
            }));
        } else {
            add(read_file(input));
        }
    }
    if reading.documents.is_empty() && reading.problems.is_empty() {
        let names: Vec<_> = inputs.iter().map(|input| format!("`{}`", input.display())).collect();
        let mut folders = inputs.iter().filter(|input| input.is_dir());
        let hint = if let Some(folder) = folders.clone().find(|folder| kustomization_of(folder).is_some()) {
            Some(build_hint(folder))
        } else {
            folders
                .any(|folder| has_folder_of_files(folder))
                .then(|| "add -R to read the folders in it, too".to_owned())
        };
        reading.problems.push(ManifestError::Empty { inputs: names.join(", "), hint });
    }
    reading
}

fn files_of(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && !is_kustomization(&path) && path.is_file() {
            files.insert(path);
        }
    }
    Ok(files)
}

/// Whether this is a file of Kustomize. It selects and changes the files to apply, and is not an object.
fn is_kustomization(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("kustomization"))
}

fn kustomization_of(folder: &Path) -> Option<PathBuf> {
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.find(|file| is_kustomization(file))
}

fn unapplied(folder: &Path, kustomization: &Path) -> Unapplied {
    Unapplied { file: kustomization.display().to_string(), hint: build_hint(folder) }
}

/// Says how to read what a kustomization makes.
fn build_hint(folder: &Path) -> String {
    format!(
        "pass the objects that it makes, as in `kubectl kustomize {} | longboat validate -`",
        folder.display()
    )
}

/// Whether a folder directly below this one has files to read.
fn has_folder_of_files(folder: &Path) -> bool {
    let mut below = std::fs::read_dir(folder).into_iter().flatten().flatten();
    below.any(|entry| files_of(&entry.path()).is_ok_and(|files| !files.is_empty()))
}

fn read_file(path: &Path) -> ParseOutput {
    match File::open(path) {
        Ok(mut file) => read_from(&path.display().to_string(), path, &mut file),
        Err(_) if path.to_string_lossy().contains("://") => {
            let advice = format!(
                "this is an address, expected a file: `curl -fsSL {} | longboat validate -` pipes it, as with every verb",
                path.display()
            );
            failed(path, io::Error::other(advice))
        }
        Err(source) => failed(path, source),
    }
}

fn read_from(name: &str, path: &Path, input: &mut dyn Read) -> ParseOutput {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that the input is too large.
    if let Err(source) = input.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes) {
        return failed(path, source);
    }
    match String::from_utf8(bytes) {
        Ok(text) => parse_all(name, &text),
        Err(error) => problem(ManifestError::Malformed {
            source_name: name.to_owned(),
            position: place_in(&error.as_bytes()[..error.utf8_error().valid_up_to()]),
            message: "this is not UTF-8 text".to_owned(),
        }),
    }
}

/// The position after a text.
fn place_in(before: &[u8]) -> Position {
    let lines = before.split(|byte| *byte == b'\n');
    let last = lines.clone().next_back().unwrap_or_default();
    Position::of_indices(lines.count() - 1, String::from_utf8_lossy(last).chars().count())
}

fn failed(path: &Path, source: io::Error) -> ParseOutput {
    problem(ManifestError::Read { path: path.to_owned(), source })
}

fn problem(problem: ManifestError) -> ParseOutput {
    ParseOutput { problems: vec![problem], ..ParseOutput::default() }
}
