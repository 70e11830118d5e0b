//! Keeping secrets out of files that are shown to others: values that look like passwords, and
//! whatever the user names. It must not know where the words come from.

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// Parts of the names of options and variables whose values are secrets.
const SECRET_NAMES: [&str; 10] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "access-key",
    "credential",
];

/// Hides secrets.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    named: Vec<String>,
}

impl Redactor {
    /// Hides these texts wherever they occur, besides what looks like a secret.
    pub fn new(named: &[String]) -> Self {
        Self { named: named.iter().filter(|text| !text.is_empty()).cloned().collect() }
    }

    /// The words of a command line without secrets.
    pub fn words(&self, words: &[String]) -> Vec<String> {
        let mut hides_next = false;
        let mut shown = Vec::with_capacity(words.len());
        for word in words {
            if hides_next {
                shown.push(HIDDEN.to_owned());
                hides_next = false;
            } else {
                hides_next = word.starts_with('-') && !word.contains('=') && is_secret(word);
                shown.push(self.text(word));
            }
        }
        shown
    }

    /// A text, such as a command for the shell, without secrets.
    pub fn text(&self, text: &str) -> String {
        let named = |text: String, secret: &String| text.replace(secret, HIDDEN);
        let text = self.named.iter().fold(text.to_owned(), named);
        let words: Vec<String> = text.split(' ').map(hidden_value).collect();
        words.join(" ")
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// A word without the value of a secret variable or option, and without the password of a URL.
fn hidden_value(word: &str) -> String {
    if let Some((name, _)) = word.split_once('=').filter(|(name, _)| is_secret(name)) {
        return format!("{name}={HIDDEN}");
    }
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':')) {
        Some((user, password)) => {
            let after = &rest[user.len() + 1 + password.len()..];
            format!("{scheme}://{user}:{HIDDEN}{after}")
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Redactor::new(&["swordfish".to_owned()]).words(&words)
    }

    #[test]
    fn values_of_secret_options_and_variables_are_hidden() {
        assert_eq!(
            shown(&["psql", "--password", "x1", "DB_PASSWORD=x2", "--token=x3", "--port", "5"]),
            ["psql", "--password", "***", "DB_PASSWORD=***", "--token=***", "--port", "5"]
        );
        assert_eq!(
            Redactor::default().text("PGPASSWORD=x1 psql -h db"),
            "PGPASSWORD=*** psql -h db"
        );
    }

    #[test]
    fn passwords_in_addresses_are_hidden_and_the_rest_is_kept() {
        assert_eq!(shown(&["redis://me:x1@host:6379/0"]), ["redis://me:***@host:6379/0"]);
        assert_eq!(shown(&["http://host:80/a@b"]), ["http://host:80/a@b"]);
    }

    #[test]
    fn what_the_user_names_is_hidden_everywhere() {
        assert_eq!(shown(&["-pswordfish", "a"]), ["-p***", "a"]);
    }
}
