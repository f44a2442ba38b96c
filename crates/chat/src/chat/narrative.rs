//! The text of a chat message for searches: the speaker and the message.

use std::collections::BTreeMap;

use marquetry_rag::Record;

use super::history::{Role, StoredMessage};
use crate::characters::{attribute_text, full_name, introduction};

/// The two speakers of a chat. A speaker without a character has the name of the role.
#[derive(Clone, Debug, Default)]
pub(super) struct Speakers {
    /// Character of the model.
    pub(super) system: Option<Record>,
    /// Character of the user.
    pub(super) user: Option<Record>,
}

impl Speakers {
    fn of(&self, role: Role) -> Option<&Record> {
        match role {
            Role::User => self.user.as_ref(),
            Role::Assistant => self.system.as_ref(),
        }
    }

    /// Returns `Alice (32 years old, elf, female)`; without a character `user` or `assistant`.
    pub(super) fn name(&self, role: Role) -> String {
        self.of(role)
            .map(introduction)
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| role.name().to_owned())
    }

    /// Returns `Alice (32 years old, elf, female): Hello there`.
    pub(super) fn narrative(&self, said: &StoredMessage) -> String {
        format!("{}: {}", self.name(said.role), said.content)
    }

    /// Returns the variables of templates: `system.name`, `user.age` and so on.
    pub(super) fn values(&self) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        for (prefix, record) in [("system", &self.system), ("user", &self.user)] {
            let Some(record) = record else { continue };
            let attributes = [
                "firstName",
                "middleName",
                "lastName",
                "gender",
                "age",
                "race",
                "description",
                "narrative",
            ]
            .map(|name| (name, attribute_text(record, name)));
            for (name, value) in [("name", full_name(record))].into_iter().chain(attributes) {
                if !value.is_empty() {
                    values.insert(format!("{prefix}.{name}"), value);
                }
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn character(attributes: Value) -> Record {
        let mut record = Record::new("olio.charPerson", "a character");
        record.attributes = attributes.as_object().cloned().unwrap_or_default();
        record
    }

    /// seed: 003/ChatVectorReferenceTest.testGetNarrativeForVectorIncludesCharacterDetails
    #[test]
    fn a_character_speaks_with_name_age_race_and_gender() {
        let speakers = Speakers {
            system: Some(character(json!({"firstName": "Bob"}))),
            user: Some(character(
                json!({"firstName": "Alice", "lastName": "Low", "age": 32, "race": ["elf", "human"], "gender": "female"}),
            )),
        };
        assert_eq!(
            speakers.narrative(&StoredMessage::by_user("Hello there")),
            "Alice Low (32 years old, elf/human, female): Hello there"
        );
        assert_eq!(speakers.narrative(&StoredMessage::by_model("Hi", "m")), "Bob: Hi");
    }

    /// seed: 003/ChatVectorReferenceTest.testGetNarrativeForVectorNullCharacterGraceful
    #[test]
    fn without_a_character_the_role_speaks() {
        let nobody = Speakers::default();
        assert_eq!(
            nobody.narrative(&StoredMessage::by_user("No characters")),
            "user: No characters"
        );
        assert_eq!(nobody.narrative(&StoredMessage::by_model("None", "m")), "assistant: None");
        let nameless =
            Speakers { user: Some(Record::new("olio.charPerson", "")), ..Speakers::default() };
        assert_eq!(nameless.narrative(&StoredMessage::by_user("Who am I?")), "user: Who am I?");
    }

    #[test]
    fn templates_may_name_both() {
        let speakers = Speakers {
            user: Some(character(json!({"firstName": "Alice", "age": 32}))),
            ..Speakers::default()
        };
        let values: Vec<_> = speakers.values().into_iter().collect();
        let expected = [("user.age", "32"), ("user.firstName", "Alice"), ("user.name", "Alice")];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
