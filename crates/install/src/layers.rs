//! Values as users give them: files and assignments, merged onto the defaults.

use serde_json::{Value, json};

use crate::{Values, ValuesError, check::check};

impl Values {
    /// Merges layers onto the defaults, in order. Objects are merged and everything else is replaced, as in Helm. A layer is
    /// a file, given by name and text.
    ///
    /// # Errors
    ///
    /// [`ValuesError`] about the first problem.
    pub fn read(files: &[(String, String)], assignments: &[String]) -> Result<Self, ValuesError> {
        let mut all = serde_json::to_value(Self::default())
            .map_err(|error| ValuesError::Type { path: ".".to_owned(), message: error.to_string() })?;
        for (origin, text) in files {
            let syntax = |message| ValuesError::Syntax { origin: origin.clone(), message };
            let layer: Value = serde_saphyr::from_str(text).map_err(|error| syntax(error.to_string()))?;
            match layer {
                Value::Null => {}
                Value::Object(_) => merge(&mut all, layer),
                _ => return Err(syntax("expected a mapping of values".to_owned())),
            }
        }
        for given in assignments {
            let wrong = || ValuesError::Assignment { given: given.clone() };
            let (path, value) = given.split_once('=').ok_or_else(wrong)?;
            if path.is_empty() || path.split('.').any(str::is_empty) {
                return Err(wrong());
            }
            let syntax = |message| ValuesError::Syntax { origin: format!("`--set {given}`"), message };
            let value: Value = match value {
                // YAML reads nothing as null, which would remove the value.
                "" => Value::String(String::new()),
                text => serde_saphyr::from_str(text).map_err(|error| syntax(error.to_string()))?,
            };
            let layer = path.rsplit('.').fold(value, |inner, key| json!({key: inner}));
            merge(&mut all, layer);
        }
        // It would be refused below, too, as an unknown field, but without a word about the flag.
        if all.get("namespace").is_some() {
            return Err(ValuesError::Type {
                path: "namespace".to_owned(),
                message: "the namespace is not a value: use --namespace".to_owned(),
            });
        }
        let values: Self = serde_path_to_error::deserialize(all).map_err(|error| ValuesError::Type {
            path: error.path().to_string(),
            message: error.into_inner().to_string(),
        })?;
        check(&values)?;
        Ok(values)
    }

    /// Whether these layers set the image. The default image works only if it has been published.
    pub fn choose_an_image(files: &[(String, String)], assignments: &[String]) -> bool {
        let in_file = |(_, text): &(String, String)| {
            serde_saphyr::from_str::<Value>(text).is_ok_and(|layer| layer["image"].is_string())
        };
        let is_given = |given: &String| given.split_once('=').is_some_and(|(path, _)| path == "image");
        files.iter().any(in_file) || assignments.iter().any(is_given)
    }
}

/// Merges objects: null removes a key, and everything else replaces the value.
fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                if value.is_null() {
                    below.remove(&key);
                } else {
                    merge(below.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (below, above) => *below = above,
    }
}

#[cfg(test)]
mod tests {
    use longboat_compose::platform::IMAGE;

    use super::*;
    use crate::Metrics;

    fn of(text: &str) -> Result<Values, String> {
        Values::read(&[("values.yaml".to_owned(), text.to_owned())], &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn layers_are_merged_key_by_key_and_later_ones_win() {
        let files = [
            ("a".to_owned(), "replicas: 3\nmetrics: {secure: false}\nnodeSelector: {a: b}".to_owned()),
            ("b".to_owned(), "nodeSelector: {c: d}\nresources: {limits: null}".to_owned()),
        ];
        let values = Values::read(&files, &["replicas=1".to_owned(), "image=r/l:1".to_owned()]).unwrap();
        assert_eq!((values.replicas, values.image.as_str()), (1, "r/l:1"));
        assert_eq!(values.metrics, Metrics { enabled: true, secure: false });
        assert_eq!(values.node_selector.len(), 2);
        assert_eq!(values.resources.keys().collect::<Vec<_>>(), ["requests"]);
        let untouched = Values::read(&[("empty".to_owned(), "# nothing\n".to_owned())], &[]).unwrap();
        assert_eq!(untouched, Values::default());
    }

    #[test]
    fn an_image_is_chosen_in_a_file_or_by_a_flag_even_if_it_is_the_default_one() {
        let file = |text: &str| vec![("values.yaml".to_owned(), text.to_owned())];
        assert!(Values::choose_an_image(&file("image: r/l:1"), &[]));
        assert!(Values::choose_an_image(&[], &[format!("image={IMAGE}")]));
        assert!(!Values::choose_an_image(
            &file("imagePullPolicy: Always"),
            &["imagePullPolicy=Never".to_owned()]
        ));
        assert!(!Values::choose_an_image(&[], &[]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_path_its_value_and_what_belongs_there() {
        let cases = [
            ("replicas: two", "values: `replicas`: invalid type: string \"two\", expected u32"),
            (
                "metrics: {port: 1}",
                "values: `metrics.port`: unknown field `port`, expected `enabled` or `secure`",
            ),
            (
                "watchNamespaces: [a, B]",
                "values: `watchNamespaces[1]` is `B`: expected the name of a namespace",
            ),
            (
                "secretNamespaces: ['']",
                "values: `secretNamespaces[0]` is ``: expected the name of a namespace",
            ),
            (
                "{watchNamespaces: [a], secretNamespaces: [a], metrics: {secure: false}}",
                "values: `secretNamespaces[0]` is `a`: expected an empty list if watchNamespaces is set",
            ),
            (
                "{watchNamespaces: [a], gateway: {enabled: true}, metrics: {secure: false}}",
                "values: `gateway.enabled` is `true`: expected false if watchNamespaces is set",
            ),
            (
                "{watchNamespaces: [a], sharedPicker: {enabled: true}, metrics: {secure: false}}",
                "values: `sharedPicker.enabled` is `true`: expected false if watchNamespaces is set",
            ),
            (
                "platform: {settings: {longboat: {picker: shared}}}",
                "values: `sharedPicker.enabled` is `false`: expected true",
            ),
            (
                "platform: {settings: {ingress: {kserveIngressGateway: nogateway}}}",
                "values: `platform.settings.ingress.kserveIngressGateway` is `nogateway`: expected NAMESPACE/NAME of a Gateway",
            ),
            (
                "platform: {settings: {ingress: {kserveIngressGateway: a/b/c}}}",
                "values: `platform.settings.ingress.kserveIngressGateway` is `a/b/c`: expected NAMESPACE/NAME of a Gateway",
            ),
            ("webhookUrl: http://a", "values: `webhookUrl` is `http://a`: expected https://HOST:PORT"),
            ("image: ''", "values: `image` is ``: expected an image"),
            ("image: X:Y:Z", "values: `image` is `X:Y:Z`: expected an image"),
            ("logLevel: verbose", "values: `logLevel` is `verbose`: expected error, warn, info or debug"),
            ("namespace: a", "values: `namespace`: the namespace is not a value: use --namespace"),
            ("platform: {settings: {ingress: {ingressGateway: ''}}}", "values: `platform.settings`: "),
            ("[1]", "values.yaml: expected a mapping of values"),
            ("imagePullPolicy: Sometimes", "values: `imagePullPolicy`: unknown variant `Sometimes`"),
        ];
        for (text, expected) in cases {
            let message = of(text).unwrap_err();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
        let error = Values::read(&[], &["replicas".to_owned()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "`--set replicas`: expected PATH=VALUE, such as replicas=3 or metrics.secure=false"
        );
    }
}
