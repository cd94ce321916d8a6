//! Tests for rules of this repository that a compiler does not check (CONTRIBUTING.md).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Dependencies that a crate with pure functions must not have.
const IMPURE: [&str; 8] =
    ["tokio", "hyper", "hyper-util", "kube-client", "kube-runtime", "reqwest", "tonic", "longboat-apiserver"];

/// Returns the output of cargo.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(ROOT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pure_crates_link_no_runtime_no_network_and_no_cluster() {
    // A machine that has only just built this has no dependencies for other platforms.
    let versions = cargo(&["--version", "--verbose"]);
    let host = versions.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", host];
    let metadata: Value = serde_json::from_str(&cargo(&metadata)).unwrap();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    // Only linked dependencies count: tests may use anything.
    let linked = |node: &Value| -> Vec<String> {
        let dependencies = node["deps"].as_array().unwrap().iter();
        dependencies
            .filter(|dependency| {
                dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null())
            })
            .map(|dependency| dependency["pkg"].as_str().unwrap().to_owned())
            .collect()
    };
    let edges: BTreeMap<&str, Vec<String>> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), linked(node)))
        .collect();
    // The first cell of a row names crates, the last one says whether they are pure.
    let architecture = std::fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let table = architecture.split("\n## The crates\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut rows = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let crates = row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2);
        rows.extend(crates.map(|name| (format!("longboat-{name}"), row.ends_with("| yes |"))));
    }
    let ours = names.values().filter(|name| name.starts_with("longboat-")).map(|name| (*name).to_owned());
    let mut listed: BTreeSet<String> = rows.keys().cloned().collect();
    assert!(listed.remove("longboat-longboat"), "the table of crates lacks the binary");
    assert_eq!(listed, ours.collect(), "the table of crates in ARCHITECTURE.md");
    let mut wrong = Vec::new();
    for (root, name) in names.iter().filter(|(_, name)| rows.get(**name).is_some_and(|pure| *pure)) {
        let mut seen = BTreeSet::from([(*root).to_owned()]);
        let mut todo = vec![(*root).to_owned()];
        while let Some(package) = todo.pop() {
            for dependency in &edges[package.as_str()] {
                if seen.insert(dependency.clone()) {
                    todo.push(dependency.clone());
                }
            }
        }
        let linked = seen.iter().map(|package| names[package.as_str()]);
        wrong.extend(
            linked.filter(|linked| IMPURE.contains(linked)).map(|linked| format!("{name} links {linked}")),
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The commands of README and of CI. A crate that one of them enables with other features is built again, with all that depend on it.
const COMMANDS: [&[&str]; 4] = [
    &["--edges=normal,build"],
    &["--edges=normal,build,dev", "--workspace", "--exclude=longboat-engine"],
    &["--edges=normal,build", "--package=longboat-engine", "--features=llguidance"],
    &["--edges=normal,build,dev", "--package=longboat-engine", "--features=llguidance"],
];

#[test]
fn all_commands_build_the_crates_that_they_share_with_the_same_features() {
    // `llguidance` switches on `preserve_order` (crates/engine/Cargo.toml), and only the tests of the engine have this client.
    let allowed = ["serde_json", "hyper-rustls"];
    let tree = ["tree", "--locked", "--offline", "--prefix=none", "--format={p}|{f}|"];
    let mut first: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = BTreeSet::new();
    for command in COMMANDS {
        let mut features: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in cargo(&[&tree, command].concat()).lines() {
            // Other lines are headings.
            let mut cells = line.split('|');
            let (Some(package), Some(enabled)) = (cells.next(), cells.next()) else { continue };
            features.entry(package.to_owned()).or_default().insert(enabled.to_owned());
        }
        for (package, enabled) in features {
            let name = package.split(' ').next().unwrap();
            let known = first.entry(package.clone()).or_insert_with(|| enabled.clone());
            // A crate that is linked and also used by build scripts has two sets.
            if known.is_disjoint(&enabled) && !allowed.contains(&name) {
                wrong.insert(format!("{package}: {known:?} and {enabled:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "add what is missing to Cargo.toml of the workspace:\n{wrong:#?}");
}

#[test]
fn no_source_file_is_longer_than_eight_hundred_lines() {
    let mut long = Vec::new();
    for folder in ["crates", "tests", "benches"] {
        visit(&Path::new(ROOT).join(folder), &mut |path| {
            let lines = std::fs::read_to_string(path).unwrap().lines().count();
            if lines > 800 {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        });
    }
    assert_eq!(long, Vec::<String>::new());
}

/// Names of types that say what happened to something instead of what it is.
const DIALECT_TYPES: [&str; 41] = [
    "Allowed",
    "Answering",
    "Arriving",
    "Asked",
    "Came",
    "Chosen",
    "Ended",
    "Exhausted",
    "Fetching",
    "Given",
    "Gone",
    "Handing",
    "Heard",
    "Hosted",
    "Hosting",
    "Kept",
    "Leaving",
    "Lent",
    "Lesson",
    "Made",
    "Meant",
    "Misread",
    "Nobody",
    "Opened",
    "Person",
    "Picked",
    "Preparing",
    "Said",
    "Saying",
    "Seen",
    "Shown",
    "Thanks",
    "Together",
    "Trouble",
    "Twin",
    "Understood",
    "Unseen",
    "Wanted",
    "Weighted",
    "Wish",
    "Wrong",
];

/// Words of constants. A limit is a `MAX_…`, a `MIN_…`, a `…_LIMIT` or a `…_TIMEOUT`, with its unit.
const DIALECT_WORDS: [&str; 14] = [
    "DEEPEST",
    "ENOUGH",
    "FAREWELL",
    "LARGEST",
    "LONGEST",
    "MOST",
    "NAP",
    "NOBODY",
    "POLITENESS",
    "REMEMBERED",
    "SHORTEST",
    "SMALLEST",
    "SOONER",
    "WIDEST",
];

/// Whole names of constants that say nothing without their comment.
const DIALECT_CONSTANTS: [&str; 6] = ["AGAIN", "BELIEVED", "GOODBYE", "KEPT", "PATIENCE", "TRIES"];

/// Names of functions.
const DIALECT_FUNCTIONS: [&str; 18] = [
    "as_somebody_else",
    "bring",
    "came_back",
    "doubtful",
    "dressed",
    "fails_barely",
    "foresee",
    "give_back",
    "hear",
    "hindrance",
    "keep_others_out",
    "look_on",
    "take_back",
    "taught",
    "tell_news",
    "tidy",
    "try_out",
    "understand",
];

#[test]
fn names_are_terms_that_one_can_search_for() {
    let mut dialect = Vec::new();
    for crate_folder in std::fs::read_dir(Path::new(ROOT).join("crates")).unwrap() {
        let sources = crate_folder.unwrap().path().join("src");
        if !sources.is_dir() {
            continue;
        }
        visit(&sources, &mut |path| {
            for (number, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
                if let Some((keyword, name)) =
                    declaration(line).filter(|(keyword, name)| is_dialect(keyword, name))
                {
                    dialect.push(format!("{}:{}: {keyword} {name}", path.display(), number + 1));
                }
            }
        });
    }
    assert_eq!(dialect, Vec::<String>::new());
}

#[test]
fn declarations_are_found_behind_their_modifiers() {
    assert_eq!(declaration("    pub(crate) async fn bring(&self) {"), Some(("fn", "bring")));
    assert_eq!(declaration("pub(super) const MOST: usize = 1;"), Some(("const", "MOST")));
    assert_eq!(declaration("pub const fn tidy() {}"), Some(("fn", "tidy")));
    assert_eq!(declaration("pub struct Wanted<'a> {"), Some(("struct", "Wanted")));
    assert_eq!(declaration("/// struct Wanted"), None);
    assert!(is_dialect("const", "MOST_ITEMS") && is_dialect("fn", "tidy") && is_dialect("enum", "Wanted"));
    assert!(
        !is_dialect("const", "ALMOST_FULL")
            && !is_dialect("fn", "wanted")
            && !is_dialect("const", "KEPT_PREFIX")
    );
}

/// Returns the keyword and the name of the item that a line declares.
fn declaration(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace().peekable();
    while words.next_if(|word| word.starts_with("pub") || matches!(*word, "async" | "unsafe")).is_some() {}
    let mut keyword = words.next()?;
    if keyword == "const" {
        keyword = words.next_if_eq(&"fn").unwrap_or(keyword);
    }
    let is_item = matches!(keyword, "struct" | "enum" | "trait" | "type" | "const" | "static" | "fn");
    let rest = words.next().filter(|_| is_item)?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some((keyword, &rest[..end]))
}

fn is_dialect(keyword: &str, name: &str) -> bool {
    match keyword {
        "fn" => DIALECT_FUNCTIONS.contains(&name),
        "const" | "static" => {
            DIALECT_CONSTANTS.contains(&name) || name.split('_').any(|word| DIALECT_WORDS.contains(&word))
        }
        _ => DIALECT_TYPES.contains(&name),
    }
}

#[test]
fn banners_name_a_type_that_is_implemented_below_them() {
    let mut stale = Vec::new();
    for file in tracked_files().into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for section in text.split("\n// === impl ").skip(1) {
            let (name, section) = section.split_once(" ===\n").unwrap();
            let section = section.split("// === ").next().unwrap();
            let mut blocks = section.lines().filter(|line| line.trim_start().starts_with("impl"));
            let words = |line: &str| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
            if !blocks.any(words) {
                stale.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert_eq!(stale, Vec::<String>::new());
}

#[test]
fn only_extproc_names_the_protobuf_types_of_envoy() {
    let mut users = Vec::new();
    visit(&Path::new(ROOT).join("crates"), &mut |path| {
        let outside = !path.components().any(|part| part.as_os_str() == "extproc");
        if outside && std::fs::read_to_string(path).unwrap().contains(concat!("envoy", "_types")) {
            users.push(path.to_owned());
        }
    });
    assert_eq!(users, Vec::<PathBuf>::new());
}

#[test]
fn nothing_cites_a_document_that_is_not_in_the_repository() {
    // Split so that this file does not contain them itself.
    let absent = [
        concat!("contract", " 0"),
        concat!("contract", "/0"),
        concat!("..", "/shared"),
        concat!("design", ".md"),
    ];
    let mut citing = Vec::new();
    for file in tracked_files() {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            if absent.iter().any(|cited| line.contains(cited)) {
                citing.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    assert_eq!(citing, Vec::<String>::new());
}

#[test]
fn links_and_paths_in_documents_lead_somewhere() {
    let mut broken = Vec::new();
    let files = tracked_files();
    for file in files.iter().filter(|file| file.extension().is_some_and(|name| name == "md")) {
        let text = std::fs::read_to_string(file).unwrap();
        // `[text](target)`. Links to other web pages are not files.
        let links =
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        // Pictures for two themes are HTML.
        let pictures = text.split("src=\"").chain(text.split("srcset=\"")).skip(1);
        let pictures = pictures.filter(|rest| rest.starts_with("docs/") || rest.starts_with("../"));
        let pictures = pictures.filter_map(|rest| rest.split_once('"')).map(|(target, _)| target);
        for target in links.chain(pictures).filter(|target| !target.contains("://")) {
            let (path, place) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let is_there = path.exists() && (place.is_empty() || anchors(&path).contains(place));
            if !is_there {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
        // Paths of source files in backticks, with as many folders as tell them from other files.
        let code = text.split('`').skip(1).step_by(2);
        let sources = code.filter(|code| Path::new(code).extension().is_some_and(|kind| kind == "rs"));
        for path in sources.filter(|path| !path.contains(['*', '{', 'X', '…', '<'])) {
            let named = files.iter().filter(|file| file.ends_with(path)).count();
            if named != 1 {
                broken.push(format!("{}: `{path}` names {named} files", file.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn there_is_one_version_of_kubernetes() {
    let module = std::fs::read_to_string(Path::new(ROOT).join("scripts/kube-apiserver/go.mod")).unwrap();
    let line = format!("\n\tk8s.io/kubernetes {}\n", longboat_types::KUBERNETES_VERSION);
    assert!(module.contains(&line), "scripts/kube-apiserver/go.mod lacks {line}");
    let minor = format!("v1.{}.", longboat_types::KUBERNETES_MINOR);
    assert!(longboat_types::KUBERNETES_VERSION.starts_with(&minor));
}

/// A shell's redirection to a wrong place leaves a file here that nobody notices.
#[test]
fn files_of_the_top_folder_are_known() {
    let listed = Command::new("git").args(["ls-files", "--", ":(glob)*"]).current_dir(ROOT).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let known = ["toml", "md", "lock", "yaml", "json"];
    let is_known = |name: &&str| {
        name.starts_with('.')
            || matches!(*name, "LICENSE" | "NOTICE" | "Dockerfile")
            || Path::new(name).extension().is_some_and(|kind| known.iter().any(|known| kind == *known))
    };
    assert_eq!(listed.lines().filter(|name| !is_known(name)).collect::<Vec<&str>>(), Vec::<&str>::new());
}

#[test]
fn every_page_of_the_book_is_in_its_summary_once() {
    let folder = Path::new(ROOT).join("docs").canonicalize().unwrap();
    let summary = std::fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let mut listed: Vec<PathBuf> = links.map(|(target, _)| folder.join(target)).collect();
    listed.sort();
    let pages = tracked_files().into_iter().map(|file| file.canonicalize().unwrap());
    let is_page = |file: &PathBuf| {
        file.starts_with(&folder)
            && file.extension().is_some_and(|name| name == "md")
            && !file.ends_with("SUMMARY.md")
    };
    let mut pages: Vec<PathBuf> = pages.filter(is_page).collect();
    pages.sort();
    assert_eq!(listed, pages);
}

/// The first page of the book links to the questions, and each question links to its answer. Other tests check the targets
/// of links.
#[test]
fn twenty_questions_are_answered_within_two_clicks() {
    let docs = Path::new(ROOT).join("docs");
    let start = std::fs::read_to_string(docs.join("README.md")).unwrap();
    assert!(start.contains("](questions.md)"), "the first page does not lead to the questions");
    let page = std::fs::read_to_string(docs.join("questions.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with('|') && line.contains("]("));
    let questions: Vec<&str> = rows.map(|row| row.split('|').nth(1).unwrap().trim()).collect();
    let different: BTreeSet<&&str> = questions.iter().collect();
    assert!(questions.len() >= 20 && different.len() == questions.len(), "{questions:#?}");
    let unanswered = page.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let unanswered: Vec<&str> =
        unanswered.filter(|line| !line.contains("](") && *line != "| question | answer |").collect();
    assert_eq!(unanswered, Vec::<&str>::new());
}

#[test]
fn every_alert_has_a_section_in_the_book_that_says_cause_and_cure() {
    let rules = std::fs::read_to_string(Path::new(ROOT).join("deploy/monitoring/rules.yaml")).unwrap();
    let value = |line: &'static str| {
        rules.lines().filter_map(move |at| at.trim_start().strip_prefix(line)).collect::<Vec<&str>>()
    };
    let (alerts, links) = (value("- alert: "), value("runbook_url: "));
    assert_eq!(alerts.len(), links.len(), "every alert has a runbook_url");
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/guides/alerts.md")).unwrap();
    let mut wrong = Vec::new();
    for (alert, link) in alerts.iter().zip(links) {
        let section =
            page.split("\n### ").find_map(|section| section.strip_prefix(alert)?.strip_prefix('\n'));
        let section = section.map(|section| section.split("\n## ").next().unwrap());
        let tells = |section: &str| section.contains("**Cause**: ") && section.contains("**What to do**: ");
        if !section.is_some_and(tells) || link != format!("docs/guides/alerts.md#{}", alert.to_lowercase()) {
            wrong.push(alert);
        }
    }
    assert_eq!(wrong, Vec::<&&str>::new());
    let sections = page.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(sections, alerts.len(), "a section without an alert");
}

/// Returns the anchors of a document: those that it names, and its headings, as mdbook and the common forges spell them.
fn anchors(document: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(document).unwrap();
    let named = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let mut anchors: BTreeSet<String> = named.map(|(name, _)| name.to_owned()).collect();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        // A second heading with the same name gets a number.
        let numbered = (1..).map(|count| format!("{anchor}-{count}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// Returns the files that git tracks and people read: source, documents, scripts, settings.
fn tracked_files() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(ROOT).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let read = ["rs", "md", "toml", "sh", "py", "yaml", "proto"];
    let files = listed.split('\0').filter(|name| !name.is_empty()).map(|name| Path::new(ROOT).join(name));
    // A deleted file that is not committed yet is still listed.
    let files = files.filter(|path| {
        path.extension().is_some_and(|kind| read.iter().any(|read| kind == *read)) && path.exists()
    });
    let files: Vec<PathBuf> = files.collect();
    assert!(files.len() > 500, "git lists {} files only", files.len());
    files
}

fn visit(folder: &Path, look: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, look);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            look(&path);
        }
    }
}
