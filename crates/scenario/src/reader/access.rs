//! Access of serde to the parts of a value: members, elements and kinds.

use super::{ReadError, Reader};
use crate::document::NodeId;
use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

/// The members of a table (only the `known` ones, if given) or the elements of an array.
pub(super) struct Children<'d> {
    reader: Reader<'d>,
    rest: std::slice::Iter<'d, NodeId>,
    known: Option<&'static [&'static str]>,
    value: NodeId,
}

impl<'d> Children<'d> {
    pub(super) fn new(reader: Reader<'d>, known: Option<&'static [&'static str]>) -> Self {
        let rest = reader.document.children(reader.at).iter();
        Self { reader, rest, known, value: reader.at }
    }
}

impl<'d> de::SeqAccess<'d> for Children<'d> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'d>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let next = self.rest.next();
        next.map(|&id| seed.deserialize(self.reader.child(id))).transpose()
    }
}

impl<'d> de::MapAccess<'d> for Children<'d> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'d>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let key = |id: NodeId| self.reader.document.node(id).key.as_str();
        let known = |id: NodeId| self.known.is_none_or(|known| known.contains(&key(id)));
        let Some(&id) = self.rest.by_ref().find(|&&id| known(id)) else { return Ok(None) };
        self.value = id;
        let key: StringDeserializer<ReadError> = key(id).to_owned().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'d>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        seed.deserialize(self.reader.child(self.value))
    }
}

/// A sequence of a number and a value. The number is the document node of a field, or the form of settings that have several
/// forms.
pub(super) struct WithNumber<'d> {
    pub(super) reader: Reader<'d>,
    pub(super) first: u64,
    pub(super) next: u8,
}

impl<'d> de::SeqAccess<'d> for WithNumber<'d> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'d>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        self.next += 1;
        match self.next {
            1 => seed.deserialize(self.first.into_deserializer()).map(Some),
            2 => seed.deserialize(self.reader).map(Some),
            _ => Ok(None),
        }
    }
}

/// The name of a kind, and a reader of its settings.
pub(super) struct Choice<'d> {
    pub(super) kind: &'d str,
    pub(super) reader: Reader<'d>,
}

impl<'d> de::EnumAccess<'d> for Choice<'d> {
    type Error = ReadError;
    type Variant = Reader<'d>;

    fn variant_seed<V: DeserializeSeed<'d>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Reader<'d>), ReadError> {
        let kind: StrDeserializer<'d, ReadError> = self.kind.into_deserializer();
        Ok((seed.deserialize(kind)?, self.reader))
    }
}

impl<'d> de::VariantAccess<'d> for Reader<'d> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        if self.named {
            return Ok(());
        }
        let node = self.document.node(self.at);
        let (kind, key) = (&node.key, &self.document.node(node.parent).key);
        let remedy = match key.is_empty() {
            true => format!("write \"{kind}\" in quotes"),
            false => format!("write `{key} = \"{kind}\"`"),
        };
        self.settle(Err(de::Error::custom(format!("`{kind}` takes no settings\n{remedy}"))))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'d>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'d>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        de::Deserializer::deserialize_any(self, visitor)
    }

    fn struct_variant<V: Visitor<'d>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.settle(self.visit_known(fields, visitor))
    }
}
