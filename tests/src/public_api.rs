//! The public items of a crate as text.
//!
//! In: the folder of a crate. Out: its public items as a Rust file without bodies, by the paths of
//! users. Guaranteed: a change of a signature, field, variant, derive or attribute changes the
//! text. Items of a macro are listed as the call of the macro.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Type, UseTree, Visibility, parse_quote};

/// The crates with a stable interface, and their folders.
pub const CRATES: [(&str, &str); 5] = [
    ("culd", "crates/culd"),
    ("culd-abi", "crates/abi"),
    ("culd-cubin", "crates/cubin"),
    ("culd-fatbin", "crates/fatbin"),
    ("culd-reloc", "crates/reloc"),
];

/// Crates without a stable interface, whose items other crates export.
const INTERNAL: [(&str, &str); 2] =
    [("culd_driver", "crates/driver"), ("culd_link", "crates/link")];

/// Attributes that are part of an interface.
const ATTRIBUTES: [&str; 4] = ["derive", "must_use", "non_exhaustive", "repr"];

/// The place of a module: names from the root.
type ModulePath = Vec<String>;

/// A crate's source: the items of each module.
struct CrateSource {
    modules: HashMap<ModulePath, Vec<Item>>,
    /// The sources of [`INTERNAL`] crates, by name.
    internal: HashMap<String, CrateSource>,
}

/// The listing of the crate in `folder`.
///
/// # Errors
/// When a source file cannot be read or parsed.
pub fn listing(folder: &Path) -> Result<String> {
    let mut source = CrateSource::of(folder)?;
    for (name, internal) in INTERNAL {
        let folder = folder.join("../..").join(internal);
        source.internal.insert(name.to_owned(), CrateSource::of(&folder)?);
    }
    let items = source.public(&Vec::new());
    let mut file = syn::parse_file("")?;
    file.items = items;
    let text = prettyplease::unparse(&file);
    Ok(text.replace("__private: (),", "// private fields"))
}

impl CrateSource {
    fn of(folder: &Path) -> Result<Self> {
        let mut source = CrateSource { modules: HashMap::new(), internal: HashMap::new() };
        source.read(&folder.join("src"), &folder.join("src/lib.rs"), Vec::new())?;
        Ok(source)
    }

    /// Reads the module at `place` from `file`, and the modules below it from `folder`.
    fn read(&mut self, folder: &Path, file: &Path, place: ModulePath) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let items = syn::parse_file(&text).with_context(|| file.display().to_string())?.items;
        self.add(folder, place, items)
    }

    fn add(&mut self, folder: &Path, place: ModulePath, items: Vec<Item>) -> Result<()> {
        for item in &items {
            let Item::Mod(module) = item else { continue };
            if is_test(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let inner: ModulePath = place.iter().cloned().chain([name.clone()]).collect();
            let below = folder.join(&name);
            if let Some((_, content)) = &module.content {
                self.add(&below, inner, content.clone())?;
                continue;
            }
            let flat = folder.join(format!("{name}.rs"));
            let file = if flat.is_file() { flat } else { below.join("mod.rs") };
            self.read(&below, &file, inner)?;
        }
        self.modules.insert(place, items);
        Ok(())
    }

    /// The public items of the module at `place`, as users see them.
    fn public(&self, place: &ModulePath) -> Vec<Item> {
        let mut all = Vec::new();
        for item in self.modules.get(place).into_iter().flatten() {
            match item {
                Item::Mod(module) if is_public(&module.vis) => {
                    let name = &module.ident;
                    let inner = place.iter().cloned().chain([name.to_string()]).collect();
                    let items = self.public(&inner);
                    all.push(parse_quote!(pub mod #name { #(#items)* }));
                }
                Item::Use(import) if is_public(&import.vis) => {
                    self.imported(place, &import.tree, Vec::new(), &mut all);
                }
                Item::Macro(call) if call.ident.is_none() => {
                    let mut call = call.clone();
                    call.attrs.clear();
                    all.push(Item::Macro(call));
                }
                item => all.extend(self.listed(place, item)),
            }
        }
        all
    }

    /// The items that a `use` of `tree` after `path` brings into the module at `place`.
    fn imported(
        &self,
        place: &ModulePath,
        tree: &UseTree,
        mut path: ModulePath,
        all: &mut Vec<Item>,
    ) {
        match tree {
            UseTree::Path(next) => {
                path.push(next.ident.to_string());
                self.imported(place, &next.tree, path, all);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.imported(place, tree, path.clone(), all);
                }
            }
            UseTree::Name(name) => match self.item(place, &path, &name.ident.to_string()) {
                Some(items) => all.extend(items),
                None => {
                    let name = &name.ident;
                    let path = path.iter().map(|part| syn::Ident::new(part, name.span()));
                    all.push(parse_quote!(pub use #(#path::)* #name;));
                }
            },
            UseTree::Rename(rename) => {
                let (name, new) = (&rename.ident, &rename.rename);
                let path = path.iter().map(|part| syn::Ident::new(part, name.span()));
                all.push(parse_quote!(pub use #(#path::)* #name as #new;));
            }
            UseTree::Glob(_) => match self.resolve(place, &path) {
                Some(module) => all.extend(self.public(&module)),
                None => {
                    let path = path.iter().map(|part| parse_ident(part));
                    all.push(parse_quote!(pub use #(#path::)* *;));
                }
            },
        }
    }

    /// The module of this crate that `path` names in the module at `place`.
    fn resolve(&self, place: &ModulePath, path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Vec::new(),
            "self" => place.clone(),
            "super" => place[..place.len().checked_sub(1)?].to_vec(),
            name => place.iter().cloned().chain([name.to_owned()]).collect(),
        };
        let module: ModulePath = start.into_iter().chain(rest.iter().cloned()).collect();
        self.modules.contains_key(&module).then_some(module)
    }

    /// The item called `name` of the module `path`, with its impls.
    fn item(&self, place: &ModulePath, path: &[String], name: &str) -> Option<Vec<Item>> {
        if let Some(internal) = path.first().and_then(|first| self.internal.get(first)) {
            let path: ModulePath =
                ["crate".to_owned()].into_iter().chain(path[1..].to_vec()).collect();
            return internal.item(&Vec::new(), &path, name);
        }
        let module = self.resolve(place, path)?;
        let items = self.modules.get(&module)?;
        let found = items.iter().find(|item| name_of(item).as_deref() == Some(name));
        if let Some(item) = found {
            return Some(self.listed(&module, item));
        }
        // Another `use` may bring it there.
        let mut all = Vec::new();
        for item in items {
            if let Item::Use(import) = item
                && let Some(tree) = only(&import.tree, name)
            {
                self.imported(&module, &tree, Vec::new(), &mut all);
            }
        }
        Some(all)
    }

    /// The public part of the item, and its impls; empty for a private one.
    fn listed(&self, place: &ModulePath, item: &Item) -> Vec<Item> {
        let Some(shown) = shown(item) else { return Vec::new() };
        let mut all = vec![shown];
        if matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Union(_))
            && let Some(name) = name_of(item)
        {
            all.extend(self.impls(place, &name));
        }
        all
    }

    /// The impls of the type `name` that is defined at `place`.
    fn impls(&self, place: &ModulePath, name: &str) -> Vec<Item> {
        let defines = |items: &Vec<Item>| {
            items.iter().any(|item| {
                matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Union(_))
                    && name_of(item).as_deref() == Some(name)
            })
        };
        let mut places: Vec<&ModulePath> = self.modules.keys().collect();
        places.sort();
        let is_unique = places.iter().filter(|at| defines(&self.modules[**at])).count() == 1;
        let near = places.into_iter().filter(|at| is_unique || *at == place);
        let items = near.flat_map(|at| &self.modules[at]);
        let impls = items.filter_map(|item| match item {
            Item::Impl(item) if self_name(&item.self_ty).as_deref() == Some(name) => {
                public_impl(item).map(Item::Impl)
            }
            _ => None,
        });
        impls.collect()
    }
}

/// The part of `tree` that imports `name`.
fn only(tree: &UseTree, name: &str) -> Option<UseTree> {
    match tree {
        UseTree::Path(path) => {
            let mut path = path.clone();
            *path.tree = only(&path.tree, name)?;
            Some(UseTree::Path(path))
        }
        UseTree::Group(group) => group.items.iter().find_map(|tree| only(tree, name)),
        UseTree::Name(one) if one.ident == name => Some(tree.clone()),
        _ => None,
    }
}

fn parse_ident(name: &str) -> syn::Ident {
    syn::parse_str(name).unwrap_or_else(|_| parse_quote!(_unknown))
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    };
    attributes.iter().any(is_test)
}

fn keep(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| ATTRIBUTES.iter().any(|name| attribute.path().is_ident(name)));
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

fn self_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|part| part.ident.to_string()),
        Type::Reference(reference) => self_name(&reference.elem),
        _ => None,
    }
}

/// A public item without bodies, values and private fields.
fn shown(item: &Item) -> Option<Item> {
    let mut item = item.clone();
    let (attributes, vis) = match &mut item {
        Item::Const(item) => {
            *item.expr = parse_quote!(_);
            (&mut item.attrs, &item.vis)
        }
        Item::Static(item) => {
            *item.expr = parse_quote!(_);
            (&mut item.attrs, &item.vis)
        }
        Item::Fn(item) => {
            *item.block = parse_quote!({});
            (&mut item.attrs, &item.vis)
        }
        Item::Enum(item) => {
            for variant in &mut item.variants {
                keep(&mut variant.attrs);
                fields(&mut variant.fields, true);
            }
            (&mut item.attrs, &item.vis)
        }
        Item::Struct(item) => {
            fields(&mut item.fields, false);
            (&mut item.attrs, &item.vis)
        }
        Item::Trait(item) => {
            for part in &mut item.items {
                if let syn::TraitItem::Fn(function) = part {
                    keep(&mut function.attrs);
                    function.default = function.default.take().map(|_| parse_quote!({}));
                }
            }
            (&mut item.attrs, &item.vis)
        }
        Item::Type(item) => (&mut item.attrs, &item.vis),
        _ => return None,
    };
    if !is_public(vis) || is_test(attributes) {
        return None;
    }
    keep(attributes);
    Some(item)
}

/// Keeps public fields; `all` for those of a variant, which are always public.
fn fields(fields: &mut Fields, all: bool) {
    let mut hidden = false;
    match fields {
        Fields::Named(named) => {
            let kept = named.named.iter().filter(|field| all || is_public(&field.vis));
            let kept: Vec<syn::Field> = kept.cloned().collect();
            hidden = kept.len() < named.named.len();
            named.named = kept.into_iter().collect();
            if hidden {
                let private: syn::FieldsNamed = parse_quote!({ __private: () });
                named.named.extend(private.named);
            }
        }
        Fields::Unnamed(unnamed) => {
            for field in &mut unnamed.unnamed {
                if !all && !is_public(&field.vis) {
                    field.ty = parse_quote!(_);
                }
            }
        }
        Fields::Unit => {}
    }
    let _ = hidden;
    for field in fields.iter_mut() {
        keep(&mut field.attrs);
    }
}

/// An impl with its public parts, without bodies; `None` if there are none.
fn public_impl(item: &ItemImpl) -> Option<ItemImpl> {
    if is_test(&item.attrs) {
        return None;
    }
    let mut item = item.clone();
    keep(&mut item.attrs);
    let of_trait = item.trait_.is_some();
    item.items.retain_mut(|part| match part {
        ImplItem::Fn(function) => {
            keep(&mut function.attrs);
            function.block = parse_quote!({});
            !of_trait && is_public(&function.vis)
        }
        ImplItem::Const(constant) => {
            keep(&mut constant.attrs);
            constant.expr = parse_quote!(_);
            !of_trait && is_public(&constant.vis)
        }
        ImplItem::Type(_) => true,
        _ => false,
    });
    (of_trait || !item.items.is_empty()).then_some(item)
}
