// What a search shows: each page once, and first the page whose title, entry of the index or section is most like the
// words searched for. Sphinx itself asks whether a title contains one of the words, or a whole entry the search; it
// lists a page for each of its titles, entries and texts that match, and finds "tor" in "store". The numbers are its own.

// The words of a text that count, as Sphinx counts them: "Sessions" is "session", and "the" is none.
const wordsOf = (text) => {
  const stemmer = new Stemmer();
  const words = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
  return new Set(words.map((word) => stemmer.stemWord(word)));
};

// How much of two sets of words is in both: 1 if all is, 0 if nothing is.
const likeness = (some, others) => {
  const shared = [...some].filter((word) => others.has(word)).length;
  return shared && shared / (some.size + others.size - shared);
};

let likenessOfPages = {};

// How much each page is like the search, by its name.
const findLikeness = (query) => {
  const { docnames, titles, alltitles, indexentries } = Search._index;
  const wanted = wordsOf(query);
  const found = {};
  const take = (file, value) => {
    found[docnames[file]] = Math.max(found[docnames[file]] || 0, value);
  };
  titles.forEach((title, file) => take(file, likeness(wanted, wordsOf(title))));
  for (const [title, places] of Object.entries(alltitles)) {
    for (const [file] of places) take(file, 0.6 * likeness(wanted, wordsOf(title)));
  }
  for (const [entry, places] of Object.entries(indexentries)) {
    for (const [file, , isMain] of places) take(file, (isMain ? 1 : 0.3) * likeness(wanted, wordsOf(entry)));
  }
  return found;
};

var Scorer = {
  // Guides come before other pages: they answer questions. Pages for those who change the package come last.
  score: ([docname, , , , score]) => {
    const isGuide = docname.startsWith("howto/") && docname !== "howto/index";
    const isForUs = docname.startsWith("architecture/");
    return score + Math.round(100 * (likenessOfPages[docname] || 0)) + (isGuide ? 15 : 0) - (isForUs ? 20 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Whether a text has these words one after the other, and no longer ones: "SessionStore" has "store", "restored" has not.
const hasWhole = (text, words) => {
  const split = (each) => ` ${splitQuery(each.replace(/_/g, " ")).join(" ")} `;
  const separate = text.replace(/([a-z0-9])([A-Z])/g, "$1 $2");
  return [text, separate].some((each) => split(each.toLowerCase()).includes(split(words.toLowerCase())));
};

// The shortest beginning of a word that finds it. Shorter ones begin too many.
const BEGINNING_MIN = 4;

// Have a list of words know what was typed: the word itself, as a part of a name such as "session_cookie_age", or, if it
// is nowhere, as the beginning of other words. Sphinx would look for it within other words.
const addWord = (list, word) => {
  const stemmer = new Stemmer();
  const all = Object.keys(list);
  const isPart = (each) =>
    each.includes("_") &&
    (`_${each}_`.includes(`_${word}_`) || each.split("_").some((part) => stemmer.stemWord(part) === word));
  let found = all.filter((each) => each === word || isPart(each));
  if (!found.length && word.length >= BEGINNING_MIN) found = all.filter((each) => each.startsWith(word));
  list[word] = [...new Set(found.flatMap((each) => list[each]))];
};

const { _performSearch, performTermsSearch, performObjectSearch } = Search;

Search.performTermsSearch = (words, excluded) => {
  for (const word of words) {
    addWord(Search._index.terms, word);
    addWord(Search._index.titleterms, word);
  }
  return performTermsSearch(words, excluded);
};

Search.performObjectSearch = (word, words) =>
  performObjectSearch(word, words).filter(([, name]) => hasWhole(name, word));

// The entries of a list whose text has the whole words of the search.
const entriesWith = (list, query) => Object.fromEntries(Object.entries(list).filter(([text]) => hasWhole(text, query)));

Search._performSearch = (query, ...terms) => {
  const index = Search._index;
  const { alltitles, indexentries } = index;
  likenessOfPages = findLikeness(query);
  index.alltitles = entriesWith(alltitles, query);
  index.indexentries = entriesWith(indexentries, query);
  // The best comes last.
  const found = _performSearch(query, ...terms).reverse();
  Object.assign(index, { alltitles, indexentries });
  const pages = new Set();
  const once = found.filter(([page]) => !pages.has(page) && pages.add(page));
  // The keywords of a page have no place on it.
  for (const result of once) if (result[2] === "#found-by") result[2] = "";
  return once.reverse();
};
