"""Captured attention against NumPy, and the figures of it."""

import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from tiers import slow_after

from flaxformer_mt import attention_maps
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.inspection.attention_figure import draw_attention
from flaxformer_mt.inspection.capture import AttentionMaps, capture
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.positions import sinusoids
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.translator import Translator

WORDS = (
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    *("the", "a", "old", "dog", "sleeps", "in", "garden", "der", "ein", "Hund", "$x$"),
)
VOCABULARY = WordVocabulary([(word, 1) for word in WORDS])
CONFIG = TransformerConfig(
    d_model=16, d_ff=24, num_heads=4, num_encoder_layers=1, num_decoder_layers=2
)
SOURCE, TARGET = "the old dog sleeps", "der Hund $x$"


def make(**changes) -> Translator:
    model = Transformer(dataclasses.replace(CONFIG, **changes), len(WORDS), len(WORDS), 2)
    shapes = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    rng = np.random.default_rng(0)  # no parameter is zero: a missing bias would be seen
    params = jax.tree.map(lambda x: jnp.asarray(0.4 * rng.normal(size=x.shape), x.dtype), shapes)
    limits = DecodingConfig(beam_size=1, max_target_length=12)
    tokenizer = Tokenizer(source=VOCABULARY, target=VOCABULARY)
    return Translator(model, params, tokenizer, limits, max_source_length=8)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make()


@pytest.fixture(scope="module")
def maps(translator) -> AttentionMaps:
    return capture(translator, SOURCE, TARGET)


def test_tokens_and_shapes(maps):
    assert maps.source_tokens == ("the", "old", "dog", "sleeps", "</s>")
    assert maps.written == ("der", "Hund", "$x$", "</s>")
    assert maps.read == ("<s>", "der", "Hund", "$x$")
    assert (maps.source_text, maps.target_text) == (SOURCE, TARGET)
    assert maps.encoder.shape == (1, 4, 5, 5)
    assert maps.decoder.shape == (2, 4, 4, 4)
    assert maps.source.shape == (2, 4, 4, 5)


def check_rows(maps: AttentionMaps) -> None:
    for kind in ("encoder", "decoder", "source"):
        weights = maps.labelled(kind).weights
        assert weights.min() >= 0
        assert weights.std() > 0.01
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    future = np.triu_indices(4, 1)
    assert np.all(maps.decoder[:, :, *future] == 0)


def test_rows_are_probabilities_and_the_decoder_is_causal(maps):
    check_rows(maps)


VARIANTS = {
    "rotary": {"positions": "rotary", "norm": "pre", "num_kv_heads": 2, "activation": "swiglu"},
    "relative": {"positions": "relative", "norm_type": "rms", "tie_embeddings": "none"},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_model_variants(changes):
    check_rows(capture(make(**changes), SOURCE, TARGET))


def numpy_weights(params, x, mask):
    """Returns softmax(Q K^T / sqrt(d_k)) of every head, from x [T D]."""
    q, k = (
        np.einsum("TD,DNH->NTH", x, params[name]["kernel"]) + params[name]["bias"][:, None]
        for name in ("query", "key")
    )
    scores = np.einsum("NTH,NSH->NTS", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * mask
    return weights / weights.sum(-1, keepdims=True)


def test_the_first_layers_equal_numpy(translator, maps):
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), translator.params)

    def embedded(pieces):
        rows = params["target_embedding"]["table"][[WORDS.index(piece) for piece in pieces]]
        return rows * 4.0 + sinusoids(len(pieces), 16)  # 4 = sqrt(d_model)

    encoder = numpy_weights(
        params["encoder_0"]["self_attention"], embedded(maps.source_tokens), np.ones((5, 5))
    )
    decoder = numpy_weights(
        params["decoder_0"]["self_attention"], embedded(maps.read), np.tril(np.ones((4, 4)))
    )
    np.testing.assert_allclose(maps.encoder[0], encoder, atol=1e-5)
    np.testing.assert_allclose(maps.decoder[0], decoder, atol=1e-5)


def test_source_attention_equals_numpy(translator, maps):
    """The last layer, computed from the inputs that Flax captured."""
    model, params = translator.model, {"params": translator.params}
    tokens = [
        jnp.array([[WORDS.index(p) for p in side]]) for side in (maps.source_tokens, maps.written)
    ]
    positions = [jnp.arange(x.shape[1])[None] for x in tokens]
    segments = [jnp.ones_like(x) for x in tokens]
    see = jax.jit(functools.partial(model.apply, capture_intermediates=True))
    seen = see(params, *tokens, *positions, *segments)[1]["intermediates"]
    of_layer = translator.params["decoder_1"]["source_attention"]
    x = seen["decoder_1"]["self_residual"]["layer_norm"]["__call__"][0][0]
    memory = seen["encoder_norm"]["__call__"][0][0]
    q = (
        jnp.einsum("TD,DNH->NTH", x, of_layer["query"]["kernel"])
        + of_layer["query"]["bias"][:, None]
    )
    k = (
        jnp.einsum("SD,DNH->NSH", memory, of_layer["key"]["kernel"])
        + of_layer["key"]["bias"][:, None]
    )
    expected = jax.nn.softmax(jnp.einsum("NTH,NSH->NTS", q, k) / 2.0)  # 2 = sqrt(d_k)
    np.testing.assert_allclose(maps.source[1], expected, atol=1e-5)


def test_scanned_layers_have_the_same_weights(maps):
    looped = capture(make(layer_loop="scan", remat="full"), SOURCE, TARGET)
    for kind in ("encoder", "decoder", "source"):
        np.testing.assert_array_equal(looped.labelled(kind).weights, maps.labelled(kind).weights)


def test_without_a_target_it_is_the_translation(translator):
    found = translator.translate([SOURCE], num_hypotheses=1)[0][0]
    maps = capture(translator, SOURCE)
    assert maps.written == tuple(WORDS[token] for token in found.tokens)
    assert maps.target_text == found.text


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (" ", None, "the source has no tokens: ' '"),
        ("the " * 8, None, "the source has 9 tokens, but the model reads at most 8"),
        (SOURCE, "der " * 12, r"the target has 13 tokens.* at most 12 \(max_target_length\)"),
    ],
)
def test_a_blank_or_too_long_sentence_is_refused(translator, source, target, message):
    with pytest.raises(ValueError, match=message):
        capture(translator, source, target)


def head_axes(figure) -> list:
    return [axes for axes in figure.axes if axes.get_title().startswith("layer")]


def texts_overlap(labels, renderer) -> bool:
    boxes = [label.get_window_extent(renderer) for label in labels]
    return any(one.overlaps(other) for one, other in zip(boxes, boxes[1:], strict=False))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "source"])
def test_every_head_is_drawn_with_its_tokens(maps, kind):
    view = maps.labelled(kind)
    figure = draw_attention(maps, kind)
    drawn = head_axes(figure)
    layers, heads = view.weights.shape[:2]
    titles = [f"layer {i}, head {n}" for i in range(layers) for n in range(heads)]
    assert [axes.get_title() for axes in drawn] == titles
    for axes, weights in zip(drawn, view.weights.reshape(-1, *view.weights.shape[2:]), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), weights)
        assert axes.images[0].get_clim() == (0, 1)
    lower_left = drawn[-heads]
    shown = [
        [label.get_text() for label in axis.get_ticklabels()]
        for axis in (lower_left.yaxis, lower_left.xaxis)
    ]
    assert shown == [[token.replace("$", r"\$") for token in tokens] for tokens in view[1:]]


@pytest.mark.slow
def test_labels_do_not_overlap(maps):
    figure = draw_attention(maps, "all")
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    renderer = canvas.get_renderer()
    for axes in head_axes(figure):
        assert not texts_overlap(axes.get_yticklabels(), renderer)
        assert not texts_overlap(axes.get_xticklabels(), renderer)
        others = [other.get_window_extent(renderer) for other in figure.axes if other is not axes]
        assert not axes.title.get_window_extent(renderer).count_overlaps(others)
        assert figure.bbox.containsx(axes.get_tightbbox(renderer).x1)


@pytest.mark.parametrize(("target", "source"), slow_after(1, [(1, 2), (1, 5), (2, 2), (4, 5)]))
@pytest.mark.parametrize("options", [{"kind": "all"}, {"layer": 0, "head": 0}])
def test_no_text_is_cut_off_however_small_the_picture(maps, target, source, options):
    small = AttentionMaps(
        encoder=maps.encoder[:, :, :source, :source],
        decoder=maps.decoder[:, :, :target, :target],
        source=maps.source[:, :, :target, :source],
        source_tokens=maps.source_tokens[:source],
        read=maps.read[:target],
        written=maps.written[:target],
        source_text=SOURCE,
        target_text=TARGET,
    )
    figure = draw_attention(small, **options)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible():
            box = text.get_window_extent(renderer)
            assert figure.bbox.padded(1).x0 <= box.x0 and box.x1 <= figure.bbox.padded(1).x1, text
            assert figure.bbox.padded(1).y0 <= box.y0 and box.y1 <= figure.bbox.padded(1).y1, text


def test_a_single_head_shows_numbers(maps):
    figure = draw_attention(maps, "decoder", layer=1, head=1)
    (axes,) = head_axes(figure)
    assert axes.get_title() == "layer 1, head 1"
    expected = [f"{w:.2f}".removeprefix("0") for w in maps.decoder[1, 1].ravel() if w >= 0.05]
    assert [text.get_text() for text in axes.texts] == expected


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"layer": 1}, "no layer 1 of encoder attention: it has 0 to 0"),
        ({"head": -1}, "no head -1 of encoder attention: it has 0 to 3"),
    ],
)
def test_a_layer_or_head_that_does_not_exist(maps, place, message):
    with pytest.raises(ValueError, match=message):
        draw_attention(maps, "all", **place)


def test_pieces_are_drawn_without_the_mark_of_a_word(maps):
    pieces = ("▁the", "▁old", "dog", "▁", "</s>")
    figure = draw_attention(dataclasses.replace(maps, source_tokens=pieces), layer=0, head=0)
    labels = [label.get_text() for label in head_axes(figure)[0].get_xticklabels()]
    assert labels == ["the", "old", "dog", "▁", "</s>"]


def test_without_matplotlib_the_package_is_named(maps, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match="pip install matplotlib"):
        draw_attention(maps)


def test_the_command_writes_an_image(translator, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Translator, "load", lambda workdir, checkpoint: translator)
    args = ["--workdir", "run", "--source", SOURCE, "--target", TARGET, "--layer", "0"]
    assert attention_maps.main([*args, "--output", str(tmp_path / "maps.png")]) == 0
    assert (tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")
    assert f"{SOURCE} -> {TARGET}" in capsys.readouterr().out


def test_the_command_refuses_a_file_that_it_cannot_write():
    with pytest.raises(ValueError, match="must end in one of .png, .svg, .pdf, got 'a.html'"):
        attention_maps.AttentionMapsArguments(workdir="run", source="x", output="a.html")
