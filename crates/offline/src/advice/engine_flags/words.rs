//! The words that vLLM gets, and the fields that have them.

use k8s_openapi::api::core::v1::Container;
use longboat_api::engine::VLLM;

use super::shell::{self, CommandWords};
use crate::{
    finding::Advice,
    pods::{base, is_shell, placed_words},
};

const PROGRAMS: [&str; 2] = ["vllm serve ", "vllm.entrypoints.openai.api_server"];

/// A word, and the path of the field that has it.
#[derive(Debug)]
pub(super) struct Word {
    pub path: String,
    pub text: String,
    /// Whether no variable or command replaces a part of it.
    pub is_exact: bool,
}

/// The words after `vllm serve`.
#[derive(Default)]
pub(super) struct Words {
    pub all: Vec<Word>,
    /// Whether a start script of presets passes the model and its name already.
    pub is_preset: bool,
    /// Whether vLLM gets `args`, as they are. `None` if it is not known.
    pub takes_arguments: Option<bool>,
    /// What the shell makes of them that nobody means.
    pub advice: Vec<Advice>,
}

pub(super) fn words(path: &str, main: &Container) -> Words {
    let items: Vec<_> = placed_words(path, main).collect();
    if !items.first().is_some_and(|(_, program)| is_shell(program)) {
        return of_program(&items);
    }
    // The flag may stand among other letters, as in `-euc`. Long options of bash, such as `--norc`, are not it.
    let is_flag = |item: &str| item.starts_with('-') && !item.starts_with("--") && item.ends_with('c');
    let Some(at) = items.iter().position(|(_, item)| is_flag(item)) else { return Words::default() };
    let Some(((script_path, script), rest)) = items[at + 1..].split_first() else { return Words::default() };
    // The first word after a script is its name.
    let arguments = rest.get(1..).unwrap_or_default().iter().cloned();
    let variable = main.env.iter().flatten().filter(|variable| {
        Some(&*variable.name) == VLLM.arguments && script.contains(variable.name.as_str())
    });
    let variables = variable.filter_map(|variable| {
        Some((format!("{path}.env[name={}].value", variable.name), variable.value.as_deref()?))
    });
    let added: Vec<(String, &str)> = variables.chain(arguments).collect();
    if script.contains("eval \"exec vllm serve") {
        return evaluated(&added);
    }
    let mut all = of_script(script_path, script);
    let takes_whole = script.contains("\"$@\"");
    let takes_arguments = takes_whole || script.contains("$@") || script.contains("$*");
    if takes_arguments {
        // The arguments follow in its place.
        all.retain(|word| !["$@", "$*"].contains(&&*word.text));
        // The shell splits what it puts in place of `$@`, unless that is quoted.
        let part = |text: &str| -> Vec<String> {
            if takes_whole {
                vec![text.to_owned()]
            } else {
                text.split_ascii_whitespace().map(str::to_owned).collect()
            }
        };
        all.extend(added.iter().flat_map(|(path, text)| {
            part(text).into_iter().map(|text| Word { path: path.clone(), is_exact: is_exact(&text), text })
        }));
    }
    Words { all, takes_arguments: Some(takes_arguments), ..Words::default() }
}

/// Whether the kubelet replaces no part of a text.
fn is_exact(text: &str) -> bool {
    !text.contains("$(")
}

/// Words that no shell reads.
fn of_program(items: &[(String, &str)]) -> Words {
    let begin = items.windows(2).position(|pair| {
        let (program, next) = (pair[0].1, pair[1].1);
        base(program) == "vllm" && next == "serve" || program == "-m" && next == PROGRAMS[1]
    });
    let words = begin.map_or(&[][..], |begin| &items[begin + 2..]).iter();
    let all = words.map(|(path, text)| Word {
        path: path.clone(),
        text: (*text).to_owned(),
        is_exact: is_exact(text),
    });
    Words { all: all.collect(), takes_arguments: begin.map(|_| true), ..Words::default() }
}

/// Words of the last command in a script that starts vLLM.
fn of_script(path: &str, script: &str) -> Vec<Word> {
    let Some(begin) =
        PROGRAMS.iter().filter_map(|program| Some(script.rfind(program)? + program.len())).max()
    else {
        return Vec::new();
    };
    let CommandWords { words, end, .. } = shell::split(&script[begin..]);
    if end.is_some_and(|(_, c)| ['"', '\''].contains(&c)) {
        // The command itself is a text.
        return Vec::new();
    }
    let words = words.into_iter();
    words.map(|word| Word { path: path.to_owned(), text: word.text, is_exact: word.is_exact }).collect()
}

/// Words that the start scripts of presets evaluate, all together.
fn evaluated(parts: &[(String, &str)]) -> Words {
    let text = parts.iter().map(|(_, text)| *text).collect::<Vec<_>>().join(" ");
    let path = |at: usize| {
        let mut end = 0;
        let part = parts.iter().find(|(_, part)| {
            // The parts are joined by spaces.
            end += part.len() + 1;
            at < end
        });
        part.map_or_else(String::new, |(path, _)| path.clone())
    };
    let split = shell::split(&text);
    let json = split.bare_json.iter().filter_map(|(begin, end)| {
        let json = &text[*begin..*end];
        bare_json(path(*begin), json)
    });
    let mut advice: Vec<Advice> = json.collect();
    advice.extend(split.end.and_then(|(at, c)| ended(path(at), c, &text[at + c.len_utf8()..])));
    let words = split.words.into_iter();
    let all = words.map(|word| Word { path: path(word.at), text: word.text, is_exact: word.is_exact });
    Words { all: all.collect(), is_preset: true, takes_arguments: Some(true), advice }
}

fn bare_json(path: String, json: &str) -> Option<Advice> {
    let got = shell::stripped(json);
    (got != json).then(|| {
        Advice::error(
            path,
            "QuotesLost",
            format!(
                "has JSON that the shell of the start script evaluates: vLLM gets `{got}` in place of `{json}`, and does not \
                 start"
            ),
            format!("put single quotes around it, inside of the value: `'{json}'`"),
        )
    })
}

/// A character that ends the command of the start script.
fn ended(path: String, c: char, rest: &str) -> Option<Advice> {
    const HINT: &str = "put single quotes around the value, inside of the argument: `'…'`";
    match c {
        '"' | '\'' => Some(Advice::error(
            path,
            "ShellSyntax",
            format!("has a quote ({c}) without its end: the shell of the start script evaluates arguments, and fails"),
            "close the quote, or write a backslash before it",
        )),
        '(' | ')' => Some(Advice::error(
            path,
            "ShellSyntax",
            format!("has `{c}` without quotes: the shell of the start script evaluates arguments, and fails"),
            HINT,
        )),
        '\n' => (!rest.trim().is_empty()).then(|| {
            let lost: String = rest.trim().chars().take(60).collect();
            Advice::warning(
                path,
                "ArgumentsLost",
                format!(
                    "ends the command with a line break: the shell of the start script does not pass what follows to vLLM: \
                     `{}`",
                    lost.replace('\n', " ")
                ),
                "write it in one line, for example with `>-` in place of `|`",
            )
        }),
        c => Some(Advice::warning(
            path,
            "ArgumentsLost",
            format!(
                "has `{c}` without quotes: the shell of the start script evaluates arguments, and vLLM gets none from there \
                 on as they are written"
            ),
            HINT,
        )),
    }
}
