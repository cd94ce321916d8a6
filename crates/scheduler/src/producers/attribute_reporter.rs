//! `request-attribute-reporter`: reports a number to the proxy, which an expression computes from a response's usage.

use crate::{
    prelude::*,
    report::{Report, USAGE},
};
use longboat_schema::Program;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawParameters {
    attributes: Vec<Attribute>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Attribute {
    key: Key,
    expression: String,
    condition: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Key {
    namespace: String,
    name: String,
}

/// The default namespace of the dynamic metadata.
const NAMESPACE: &str = "envoy.lb";

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let RawParameters { attributes } = parameters.read()?;
    let Ok([attribute]) = <[Attribute; 1]>::try_from(attributes) else {
        return Err(parameters.invalid("attributes", "expected exactly one entry"));
    };
    let Attribute { key: Key { namespace, name }, expression, condition } = attribute;
    parameters.require(!name.is_empty(), "attributes[0].key.name", "it is required")?;
    parameters.require(!expression.trim().is_empty(), "attributes[0].expression", "it is required")?;
    let namespace = if namespace.is_empty() { NAMESPACE.to_owned() } else { namespace };
    if builder.requirements.reports.iter().any(|other| other.namespace == namespace && other.name == name) {
        return Err(parameters.invalid(
            "attributes[0].key",
            format!("another plugin reports \"{name}\" in \"{namespace}\" already"),
        ));
    }
    let compile = |field: &str, text: &str| {
        let invalid = |message: String| parameters.invalid(field, message);
        let program = Program::compile(text).map_err(invalid)?;
        match program.unknown_variable(&[USAGE]) {
            None => Ok(program.runnable()),
            Some(other) => Err(invalid(format!("unknown name \"{other}\"; expected {USAGE}"))),
        }
    };
    let expression = compile("attributes[0].expression", &expression)?;
    let condition = if condition.trim().is_empty() {
        None
    } else {
        Some(compile("attributes[0].condition", &condition)?)
    };
    builder.requirements.reports.push(Report { namespace, name, expression, condition });
    Ok(Plugin::default())
}

#[cfg(test)]
mod tests {
    use crate::{report::Usage, tests::try_scheduler};

    const TOKENS: Usage = Usage { input: 7, output: 5, cached: 4 };

    fn report(expression: &str, condition: &str) -> Result<Option<i64>, String> {
        let plugin = format!(
            "{{type: request-attribute-reporter, parameters: {{attributes: [{{key: {{name: cost}}, expression: \"{expression}\", \
             condition: \"{condition}\"}}]}}}}"
        );
        let scheduler = try_scheduler(&plugin, "").map_err(|error| error.to_string())?;
        let [report] = scheduler.reports() else { panic!("one report") };
        assert_eq!((report.namespace.as_str(), report.name.as_str()), ("envoy.lb", "cost"));
        Ok(report.of(TOKENS))
    }

    #[test]
    fn a_number_is_made_of_the_usage() {
        for (expression, condition, number) in [
            ("usage.prompt_tokens + usage.completion_tokens", "", Some(12)),
            ("usage.total_tokens", "has(usage.total_tokens)", Some(12)),
            ("usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens * 0.5", "", Some(5)),
            ("(has(usage.completion_tokens) ? usage.completion_tokens : 0)", "", Some(5)),
            ("3", "usage.completion_tokens > 1.0", Some(3)),
            ("3", "usage.completion_tokens > 9.0", None),
            ("3", "has(usage.thoughts)", None),
            ("3", "usage.completion_tokens", None),
            ("usage.thoughts", "", None),
            ("usage.prompt_tokens - usage.prompt_tokens", "", None),
            ("'text'", "", None),
            ("usage.prompt_tokens / 0.0", "", None),
        ] {
            assert_eq!(report(expression, condition), Ok(number), "{expression} if {condition}");
        }
    }

    #[test]
    fn what_is_no_report_is_refused_by_path() {
        for (expression, condition, part) in [
            ("", "", "attributes[0].expression: it is required"),
            ("usage.prompt_tokens +", "", "attributes[0].expression: "),
            ("response.tokens", "", "unknown name \\\"response\\\"; expected usage"),
            ("1", "usage.(", "attributes[0].condition: "),
        ] {
            let message = report(expression, condition).unwrap_err();
            assert!(message.contains(&part.replace('\\', "")), "{message}");
        }
        let refused = |parameters: &str| {
            let plugin = format!("{{type: request-attribute-reporter, parameters: {parameters}}}");
            try_scheduler(&plugin, "").unwrap_err().to_string()
        };
        assert!(refused("{}").contains("exactly one entry"));
        assert!(refused("{attributes: [{expression: '1'}]}").contains("attributes[0].key.name"));
        let one = "{type: request-attribute-reporter, parameters: {attributes: [{key: {name: a}, expression: '1'}]}}";
        let two = format!("{one}, {}", one.replace("type:", "name: other, type:"));
        assert!(try_scheduler(&two, "").unwrap_err().to_string().contains("already"));
    }
}
