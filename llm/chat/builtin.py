"""Chat templates for models whose file has none, or the wrong one: `--chat-template NAME`.

Each writes the format that the model's authors document, in the form of messages with string content.
"""

from llm.tokenizer import Tokenizer


def _each(body: str, prompt: str) -> str:
    """`body` for every message m, then `prompt` where the assistant is to speak."""
    return (
        f"{{% for m in messages %}}{body}{{% endfor %}}{{% if add_generation_prompt %}}{prompt}{{% endif %}}"
    )


def _by_role(system: str, user: str, assistant: str, prompt: str = "") -> str:
    body = (
        f"{{% if m.role == 'system' %}}{system}{{% elif m.role == 'user' %}}{user}"
        f"{{% elif m.role == 'assistant' %}}{assistant}"
        "{% else %}{{ raise_exception('unknown role ' ~ m.role) }}{% endif %}"
    )
    return _each(body, prompt)


def _mistral(space: str) -> str:
    return (
        "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
        "{% set ns.system = ns.system ~ m.content ~ '\\n\\n' %}{% elif m.role == 'user' %}"
        f"[INST]{space}{{{{ ns.system ~ m.content }}}}[/INST]{{% set ns.system = '' %}}"
        f"{{% else %}}{space}{{{{ m.content | trim }}}}</s>{{% endif %}}{{% endfor %}}"
    )


BUILTIN = {
    "chatml": _each(
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{{ '\n' }}",
        "<|im_start|>assistant{{ '\n' }}",
    ),
    "llama3": _each(
        "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>{{ '\n\n' }}",
    ),
    "llama4": _each(
        "<|header_start|>{{ m.role }}<|header_end|>\n\n{{ m.content | trim }}<|eot|>",
        "<|header_start|>assistant<|header_end|>{{ '\n\n' }}",
    ),
    "llama2": _by_role(
        "{{ bos_token }}[INST] <<SYS>>\n{{ m.content }}\n<</SYS>>{{ '\n\n' }}",
        "{% if loop.first or loop.previtem.role != 'system' %}{{ bos_token }}[INST] {% endif %}"
        "{{ m.content | trim }} [/INST]",
        " {{ m.content | trim }} {{ eos_token }}",
    ),
    "gemma": _by_role(
        "{{ raise_exception('no system role') }}",
        "<start_of_turn>user\n{{ m.content | trim }}<end_of_turn>{{ '\n' }}",
        "<start_of_turn>model\n{{ m.content | trim }}<end_of_turn>{{ '\n' }}",
        "<start_of_turn>model{{ '\n' }}",
    ),
    "mistral-v1": _by_role(
        "{{ raise_exception('no system role') }}",
        " [INST] {{ m.content }} [/INST]",
        " {{ m.content }}</s>",
    ),
    "mistral-v3": _mistral(" "),
    "mistral-v3-tekken": _mistral(""),
    "mistral-v7": _by_role(
        "[SYSTEM_PROMPT] {{ m.content }}[/SYSTEM_PROMPT]",
        "[INST] {{ m.content }}[/INST]",
        " {{ m.content }}</s>",
    ),
    "mistral-v7-tekken": _by_role(
        "[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]",
        "[INST]{{ m.content }}[/INST]",
        "{{ m.content }}</s>",
    ),
    "phi3": _each("<|{{ m.role }}|>\n{{ m.content }}<|end|>{{ '\n' }}", "<|assistant|>{{ '\n' }}"),
    "phi4": _each(
        "<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>", "<|im_start|>assistant<|im_sep|>"
    ),
    "zephyr": _each("<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}{{ '\n' }}", "<|assistant|>{{ '\n' }}"),
    "vicuna": _by_role(
        "{{ m.content }}{{ '\n\n' }}",
        "USER: {{ m.content }}{{ '\n' }}",
        "ASSISTANT: {{ m.content }}</s>{{ '\n' }}",
        "ASSISTANT:",
    ),
    "deepseek": _by_role(
        "{{ m.content }}",
        "### Instruction:\n{{ m.content }}{{ '\n' }}",
        "### Response:\n{{ m.content }}\n<|EOT|>{{ '\n' }}",
        "### Response:{{ '\n' }}",
    ),
    "deepseek2": _by_role(
        "{{ m.content }}{{ '\n\n' }}",
        "User: {{ m.content }}{{ '\n\n' }}",
        "Assistant: {{ m.content }}<｜end▁of▁sentence｜>",
        "Assistant:",
    ),
    "deepseek3": _by_role(
        "{{ m.content }}{{ '\n\n' }}",
        "<｜User｜>{{ m.content }}",
        "<｜Assistant｜>{{ m.content }}<｜end▁of▁sentence｜>",
        "<｜Assistant｜>",
    ),
    "deepseek-ocr": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "smolvlm": "<|im_start|>"
    + _by_role(
        "System: {{ m.content }}<end_of_utterance>{{ '\n' }}",
        "User: {{ m.content }}<end_of_utterance>{{ '\n' }}",
        "Assistant: {{ m.content }}<end_of_utterance>{{ '\n' }}",
        "Assistant:",
    ),
    "chatglm4": "[gMASK]<sop>" + _each("<|{{ m.role }}|>\n{{ m.content }}", "<|assistant|>{{ '\n' }}"),
    "command-r": _by_role(
        "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{ m.content | trim }}<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{ m.content | trim }}<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{{ m.content | trim }}<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    ),
    "granite": _each(
        "<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}<|end_of_text|>{{ '\n' }}",
        "<|start_of_role|>assistant<|end_of_role|>",
    ),
    "minicpm": _by_role("{{ m.content }}", "<用户>{{ m.content | trim }}<AI>", "{{ m.content | trim }}"),
}
BUILTIN["mistral"] = BUILTIN["mistral-v3"]

# Tokens that give a family away, the telling ones first.
_SIGNS = (
    ("<|im_sep|>", "phi4"),
    ("<end_of_utterance>", "smolvlm"),
    ("<|im_start|>", "chatml"),
    ("<start_of_turn>", "gemma"),
    ("<|start_header_id|>", "llama3"),
    ("<|header_start|>", "llama4"),
    ("<|start_of_role|>", "granite"),
    ("<|START_OF_TURN_TOKEN|>", "command-r"),
    ("[SYSTEM_PROMPT]", "mistral-v7-tekken"),
    ("[INST]", "mistral-v3"),
    ("<｜User｜>", "deepseek3"),
    ("[gMASK]", "chatglm4"),
    ("<|end|>", "phi3"),
)


def builtin_for(tokenizer: Tokenizer) -> str | None:
    """The built-in template that the vocabulary suggests."""
    return next((name for token, name in _SIGNS if tokenizer.token_id(token) is not None), None)
